package deploy

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// directives returns what follows a word at the beginning of lines of the last stage of the Dockerfile.
func directives(t *testing.T, word string) (all []string) {
	t.Helper()
	text := readFile(t, "Dockerfile")
	last := text[strings.LastIndex(text, "\nFROM "):]
	for _, m := range regexp.MustCompile(`(?m)^`+word+` (.+)$`).FindAllStringSubmatch(last, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestTheImageIsItsCommand: it is made of nothing, and what is copied into it is the command and certificates.
func TestTheImageIsItsCommand(t *testing.T) {
	if from := directives(t, "FROM"); len(from) != 1 || from[0] != "scratch" {
		t.Errorf("it is made of %q", from)
	}
	for _, copied := range directives(t, "COPY") {
		if !strings.HasPrefix(copied, "--from=build /etc/ssl/certs/ca-certificates.crt ") && copied != "--from=build /slidegate /slidegate" {
			t.Errorf("it holds %s", copied)
		}
	}
	var entry []string
	if err := json.Unmarshal([]byte(directives(t, "ENTRYPOINT")[0]), &entry); err != nil || len(entry) != 1 || entry[0] != "/slidegate" {
		t.Errorf("it starts %q, %v", entry, err)
	}
	work := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.work"))
	if !strings.Contains(readFile(t, "Dockerfile"), "\nFROM golang:"+work[1]+" AS build\n") {
		t.Errorf("it is not built with Go %s, which go.work asks for", work[1])
	}
}

// TestTheCommandNeedsNoLibrary, not even a loader.
func TestTheCommandNeedsNoLibrary(t *testing.T) {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it asks for a loader")
		}
	}
	if libraries, _ := f.ImportedLibraries(); len(libraries) > 0 {
		t.Errorf("it asks for %q", libraries)
	}
}

// TestTheImageServes as its user, in a root that holds nothing but the command and that it may not write to, with
// the variables of the image.
func TestTheImageServes(t *testing.T) {
	if user := directives(t, "USER"); len(user) != 1 || user[0] != "65534:65534" {
		t.Fatalf("its user is %q, want a number that is not 0, so that runAsNonRoot can be checked", user)
	}
	vars := settings{}
	for _, set := range directives(t, "ENV") {
		name, value, _ := strings.Cut(set, "=")
		vars[name] = value
	}
	_, port, _ := strings.Cut(vars["SLIDEGATE_LISTEN"], ":")
	if exposed := directives(t, "EXPOSE"); len(exposed) != 1 || exposed[0] != port {
		t.Errorf("it exposes %q and listens on %q", exposed, vars["SLIDEGATE_LISTEN"])
	}
	cmd := command(vars.with(local(nil)), "serve", "--limit", "2/1m")
	if os.Geteuid() == 0 { // others may not change their root
		dir := t.TempDir()
		if err := os.Link(binary, filepath.Join(dir, "slidegate")); err != nil {
			t.Fatal(err)
		}
		cmd.Path = "/slidegate"
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	r := await(t, cmd)
	r.want(200, 200, 429)
	if strings.Contains(r.text(), "WARN") || strings.Contains(r.text(), "no flag") {
		t.Errorf("it says\n%s", r.text())
	}
	if status := r.terminate(); status != 0 {
		t.Errorf("it ends with %d: %s", status, r.text())
	}
}

// TestTheImageKnowsItsVersion, as it was given when it was built.
func TestTheImageKnowsItsVersion(t *testing.T) {
	out, err := exec.Command(binary, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Errorf("%s, %v", out, err)
	}
}
