#!/usr/bin/env bash
# redis-versions.sh [PACKAGE...]: runs the tests that need a Redis server (./test/redis... unless other
# packages are named) on every version of Redis and Valkey that can be had, and prints a table.
#
# The versions are the installed one and those of other suites of the Debian archive that this
# machine already uses. Nothing is installed: packages are unpacked into a directory, with the
# libraries they need, and run from there. That directory is a temporary one, or the one that
# REDIS_VERSIONS_DIR names, where servers are kept and not fetched again.
# ONLY=REGEXP runs the versions that match it alone, such as ONLY=valkey.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# What is tried: the package that holds the server, the suite, and the suite that one builds upon.
wanted() {
	cat <<-END
		redis-tools  bullseye           -
		redis-tools  bookworm           -
		redis-tools  trixie             -
		redis-tools  sid                -
		redis-tools  experimental       sid
		valkey-tools bookworm-backports bookworm
		valkey-tools trixie             -
		valkey-tools sid                -
	END
}

packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(./test/redis...)

if [ -n "${REDIS_VERSIONS_DIR:-}" ]; then
	mkdir -p "$REDIS_VERSIONS_DIR" && work=$(cd "$REDIS_VERSIONS_DIR" && pwd) || exit 1
else
	work=$(mktemp -d) || exit 1
	trap 'rm -rf "$work"' EXIT
fi

# archive prints the options and address of the archive that the installed system comes from.
archive() {
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(CODENAME)' 'Identifier: Packages' 2>/dev/null |
		awk '$2 == "Debian" && $1 !~ /security/ { print $1; exit }'
}

# aptly SUITE COMMAND...: apt with lists, cache and sources of its own.
aptly() {
	local dir=$work/apt-$1 command=$2
	shift 2
	"$command" -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State="$dir/state" -o Dir::State::Status=/dev/null -o Dir::Cache="$dir/cache" \
		-o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=false -o Debug::NoLocking=true \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# fetch PACKAGE SUITE BASE DIR: unpacks the server and its libraries into DIR.
fetch() {
	local package=$1 suite=$2 base=$3 dir=$4 apt=$work/apt-$2 uri s debs
	uri=$(archive)
	[ -n "$uri" ] || { echo "no Debian archive among the sources of apt"; return 1; }
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$dir/debs" "$dir/root"
	for s in "$suite" ${base#-}; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $s main"
	done >"$apt/sources.list"
	aptly "$suite" apt-get update -qq </dev/null || return 1
	# Of all that the package asks for, the libraries are enough.
	debs=$(aptly "$suite" apt-get install -s -t "$suite" "$package" |
		sed -nE 's/^Inst ((lib|lua|redis|valkey)[^ ]*) \(([^ ]+) .*/\1=\3/p')
	[ -n "$debs" ] || { echo "no $package in $suite"; return 1; }
	# shellcheck disable=SC2086 # the names are words
	(cd "$dir/debs" && aptly "$suite" apt-get download -qq $debs) || return 1
	for s in "$dir"/debs/*.deb; do
		dpkg-deb -x "$s" "$dir/root" || return 1
	done
	rm -rf "$dir/debs" "$apt"
}

# wrap ROOT: writes a program that runs the server of ROOT with the loader and the libraries of ROOT.
wrap() {
	local root=$1 server loader libraries
	server=$(find "$root/usr/bin" \( -name redis-server -o -name valkey-server -o -name redis-check-rdb -o -name valkey-check-rdb \) -type f | head -1)
	loader=$(find "$root" \( -name 'ld-linux*.so*' -o -name 'ld-[0-9]*.so' \) -type f | head -1)
	libraries=$(find "$root" -name '*.so*' -exec dirname {} + | grep -E '/lib/[^/]*$' | sort -u | paste -sd:)
	[ -n "$server" ] && [ -n "$loader" ] || { echo "no server or no loader in the packages"; return 1; }
	ln -f "$server" "$root/redis-server" || return 1 # by another name it would be another tool
	cat >"$root/server" <<-END
		#!/bin/sh
		exec "$loader" --library-path "$libraries" "$root/redis-server" "\$@"
	END
	chmod +x "$root/server"
}

# version SERVER: "redis 8.0.2".
version() {
	"$1" --version 2>&1 | sed -nE 's/^(Redis|Valkey) server v=([^ ]+).*/\L\1\E \2/p'
}

table=() tried='' failed=0 ran=0
row() { table+=("$(printf '%-16s %-20s %s' "$1" "$2" "$3")"); }

# try SERVER WHENCE: runs the tests on one server.
try() {
	local server=$1 whence=$2 name start=$SECONDS
	name=$(version "$server")
	[ -n "$name" ] || { row "?" "$whence" "does not run here: $("$server" --version 2>&1 | tail -1)"; return; }
	[[ $tried != *"<$name>"* ]] || return # the same version again
	tried+="<$name>"
	echo "==> $name ($whence)"
	ran=$((ran + 1))
	if SLIDEGATE_REDIS_SERVER=$server go test -count=1 "${packages[@]}"; then
		row "$name" "$whence" "ok, $((SECONDS - start)) s"
	else
		row "$name" "$whence" FAILED
		failed=1
	fi
}

for installed in redis-server valkey-server; do
	[[ $installed =~ ${ONLY:-} ]] && command -v $installed >/dev/null && try "$(command -v $installed)" installed
done
while read -r package suite base; do
	[[ "$package $suite" =~ ${ONLY:-} ]] || continue
	dir=$work/$package-$suite
	if [ ! -x "$dir/root/server" ]; then
		rm -rf "$dir"
		mkdir -p "$dir"
		echo "==> fetching $package of $suite"
		if ! { fetch "$package" "$suite" "$base" "$dir" && wrap "$dir/root"; } >"$dir/log" 2>&1; then
			row "${package%-tools}" "$suite" "cannot be had: $(tail -1 "$dir/log")"
			continue
		fi
	fi
	try "$dir/root/server" "$suite" </dev/null
done < <(wanted)

echo
printf '%s\n' "${table[@]}"
[ "$ran" -gt 0 ] || { echo "redis-versions: no server ran" >&2; exit 1; }
exit $failed
