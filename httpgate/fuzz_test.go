package httpgate

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// FuzzFind: whatever a client sends, the address that the nearest proxy adds is the one that counts.
func FuzzFind(f *testing.F) {
	f.Add("203.0.113.7:1", "1.1.1.1, 198.51.100.7", uint8(0))
	f.Add("[::ffff:10.0.0.1%eth0]:80", "for=\"[2001:db8::1]:4711\";by=_x", uint8(1))
	f.Add("@", "[2001:db8::7]", uint8(2))
	f.Fuzz(func(t *testing.T, remote, sent string, kind uint8) {
		header := []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"}[kind%3]
		a := &Addresses{header: header, trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		hops := &Addresses{header: header, hops: 1}
		lines := strings.Split(sent, "\n")
		for _, finder := range []*Addresses{a, hops, {}} {
			addr, reason := finder.Find(&http.Request{RemoteAddr: remote, Header: http.Header{header: lines}})
			if addr.IsValid() == (reason == ReasonNoPeer || reason == ReasonBadPeer) {
				t.Fatalf("address %s, %s", addr, reason)
			}
			if addr.Zone() != "" || addr.Is4In6() || reason == ReasonHeader && addr.IsUnspecified() {
				t.Fatalf("address %s, %s", addr, reason)
			}
			if key := finder.Key(addr); addr.IsValid() == (key == "") {
				t.Fatalf("address %s has the key %q", addr, key)
			}
		}
		added := "198.51.100.9"
		if header == "Forwarded" {
			added = "for=" + added
		}
		peer, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.9")
		r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: append(lines, added)}}
		for _, finder := range []*Addresses{a, hops} {
			if finder == hops && !isList(header) {
				continue // New refuses it
			}
			addr, reason := finder.Find(r)
			malformed := header == "Forwarded" && reason == ReasonMalformed && addr == peer
			if !malformed && (addr != client || reason != ReasonHeader) {
				t.Fatalf("a client that sends %q is %s, %s", sent, addr, reason)
			}
		}
	})
}

// FuzzForwarded: quoting is undone, and what is added behind is one more element.
func FuzzForwarded(f *testing.F) {
	f.Add(`for=192.0.2.43, for="[2001:db8::1]:80";proto=https`, "a, for=1.1.1.1")
	f.Add(`for="a\"b";;by=x`, `\"`)
	f.Add(`for=a;for=b`, "")
	f.Fuzz(func(t *testing.T, line, node string) {
		members, ok := forwardedFor([]string{line})
		if len(members) > strings.Count(line, ",")+1 || !ok && members != nil {
			t.Fatalf("%q has %q, %v", line, members, ok)
		}
		more, okMore := forwardedFor([]string{line, "for=x"})
		if okMore != ok || ok && (len(more) != len(members)+1 || more[len(members)] != "x") {
			t.Fatalf("%q and one more: %q, %v", line, more, okMore)
		}
		if strings.ContainsFunc(node, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(node)
		if got, ok := forwardedFor([]string{`proto=https;FOR="` + quoted + `"`}); !ok || len(got) != 1 || got[0] != node {
			t.Fatalf("%q came back as %q, %v", node, got, ok)
		}
	})
}

// FuzzParseTrusted: what is accepted is a network that matches, is never everybody, and is read back.
func FuzzParseTrusted(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "2001:db8::1", "10.0.0.0/08", "0.0.0.0/0", "fe80::1%eth0/64"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseTrusted(s)
		if err != nil {
			if p.IsValid() {
				t.Fatalf("%q: %s and %v", s, p, err)
			}
			return
		}
		if !p.IsValid() || p.Bits() == 0 || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" || !p.Contains(p.Addr()) {
			t.Fatalf("%q became %s", s, p)
		}
		if again, err := ParseTrusted(p.String()); err != nil || again != p {
			t.Fatalf("%s came back as %s, %v", p, again, err)
		}
	})
}

// FuzzJoin: different parts give different keys.
func FuzzJoin(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("1:a|1:b", "", "a", "b")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if (a != c || b != d) && Join(a, b) == Join(c, d) {
			t.Fatalf("%q, %q and %q, %q are one key", a, b, c, d)
		}
		if Join(a, b) == Join(c) || Join(a+b) == Join(a, b) {
			t.Fatalf("%q, %q and %q are one key", a, b, c)
		}
	})
}

// FuzzEncodeName: different texts give different names, and every name can be written in a field.
func FuzzEncodeName(f *testing.F) {
	f.Add("naïve", "na%C3%AFve")
	f.Add("50%", "50%25")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && EncodeName(a) == EncodeName(b) {
			t.Fatalf("%q and %q have one name", a, b)
		}
		if _, err := appendString(nil, EncodeName(a)); err != nil || strings.Contains(EncodeName(a), "=") {
			t.Fatalf("%q became %q", a, EncodeName(a))
		}
	})
}
