package httpgate

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

//go:embed testdata/interface-vectors.json
var vectorsJSON []byte

type vector struct {
	ID     string
	Area   string
	Input  json.RawMessage
	Expect json.RawMessage
}

// areas are the vectors of what this package sends, and of whom it counts. What it reads is in parseAreas.
var areas = map[string]func(t *testing.T, v vector){
	"client_ip":            clientIP,
	"ip_key":               ipKey,
	"trusted_proxy_config": trustedProxy,
	"headers.draft-8":      fields,
	"headers.draft-7":      fields,
	"headers.draft-6":      fields,
	"headers.legacy":       fields,
	"headers.legacy-delta": fields,
	"sf.string":            structured,
	"sf.key":               structured,
	"sf.integer":           structured,
	"sf.bytes":             structured,
	"sf.name_encode":       structured,
	"retry_after":          retryAfterVector,
	"express.draft-8":      express,
	"problem":              problem,
}

// elsewhere are the areas that this package does not answer for, by what they begin with, and who does.
var elsewhere = map[string]string{
	"grpc":          "TestVectors of grpcgate and of connectgate, which fail if one of them is not run",
	"rls.":          "nobody: there is no Envoy rate limit service",
	"forward_auth.": "TestVectors of the command's package auth, which fails if one of them is not run",
}

// TestVectors runs the vectors of areas.
func TestVectors(t *testing.T) { runVectors(t, areas) }

// TestEveryVectorHasItsTest: each is run in this package, or it is said where else.
func TestEveryVectorHasItsTest(t *testing.T) {
	used := map[string]bool{}
	for _, v := range allVectors(t) {
		if areas[v.Area] != nil || parseAreas[v.Area] != nil {
			continue
		}
		named := ""
		for begin := range elsewhere {
			if strings.HasPrefix(v.Area, begin) {
				named = begin
			}
		}
		if used[named] = true; named == "" {
			t.Errorf("%s: nobody answers for area %s", v.ID, v.Area)
		}
	}
	for begin := range elsewhere {
		if !used[begin] {
			t.Errorf("no vector is left of %s", begin)
		}
	}
}

func allVectors(t *testing.T) (all []vector) {
	t.Helper()
	read(t, vectorsJSON, &all)
	return all
}

// runVectors runs the vectors of some areas, of which each has one.
func runVectors(t *testing.T, areas map[string]func(*testing.T, vector)) {
	t.Helper()
	ran := map[string]bool{}
	for _, v := range allVectors(t) {
		if check := areas[v.Area]; check != nil {
			ran[v.Area] = true
			t.Run(v.ID, func(t *testing.T) { check(t, v) })
		}
	}
	for area := range areas {
		if !ran[area] {
			t.Errorf("area %s has no vector", area)
		}
	}
}

func read(t *testing.T, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func clientIP(t *testing.T, v vector) {
	var in struct {
		Config struct {
			Header  string
			Trusted []string
			Hops    int
		}
		Headers    map[string][]string
		RemoteAddr string `json:"remote_addr"`
	}
	var want struct{ IP, Reason string }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	a := &Addresses{header: http.CanonicalHeaderKey(in.Config.Header), hops: in.Config.Hops}
	for _, s := range in.Config.Trusted {
		p, err := ParseTrusted(s)
		if err != nil {
			t.Fatal(err)
		}
		a.trusted = append(a.trusted, p)
	}
	r := &http.Request{RemoteAddr: in.RemoteAddr, Header: http.Header{}}
	for name, lines := range in.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = lines
	}
	addr, reason := a.Find(r)
	ip := ""
	if addr.IsValid() {
		ip = addr.String()
	}
	if ip != want.IP || string(reason) != want.Reason {
		t.Errorf("got %q, %s; want %q, %s", ip, reason, want.IP, want.Reason)
	}
}

func ipKey(t *testing.T, v vector) {
	var in struct {
		IP     string
		Prefix int  `json:"ipv6_prefix"`
		Unwrap bool `json:"unwrap_nat64"`
	}
	var want string
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	a := &Addresses{prefix: in.Prefix, nat64: in.Unwrap}
	if got := a.Key(netip.MustParseAddr(in.IP)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func trustedProxy(t *testing.T, v vector) {
	var in struct{ CIDR string }
	var want struct {
		Error  bool
		Prefix string
	}
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	p, err := ParseTrusted(in.CIDR)
	if (err != nil) != want.Error || err == nil && p.String() != want.Prefix {
		t.Errorf("got %s, %v; want %+v", p, err, want)
	}
}

func fields(t *testing.T, v vector) {
	var in struct {
		Format   string
		Now      int64 `json:"now_unix"`
		Policies []struct {
			Name, Window, Reset, Unit string
			Quota, Remaining          int64
			Violated                  bool
			PK                        string `json:"pk_base64"`
		}
	}
	var want struct{ Headers map[string]string }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	format, err := ParseFormat(in.Format)
	if err != nil {
		t.Fatal(err)
	}
	var policies []policy
	var partitions [][]byte
	var standings []standing
	for _, p := range in.Policies {
		window, err1 := slidegate.ParseDuration(p.Window)
		reset, err2 := slidegate.ParseDuration(p.Reset)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		one := newPolicy(slidegate.Per(window, p.Quota).Named(p.Name))
		one.unit = p.Unit
		var partition []byte
		if p.PK != "" {
			if partition, err = base64.StdEncoding.DecodeString(p.PK); err != nil {
				t.Fatal(err)
			}
		}
		partitions = append(partitions, partition)
		policies = append(policies, one)
		standings = append(standings, standing{clamp(p.Remaining), reset, p.Violated})
	}
	h := http.Header{}
	newPlate(policies).write(h, &page{formats: 1 << format, now: in.Now * 1000, partitions: partitions}, standings)
	got := map[string]string{}
	for name, values := range h {
		got[name] = strings.Join(values, ", ")
	}
	expected := map[string]string{}
	for name, value := range want.Headers {
		expected[http.CanonicalHeaderKey(name)] = value
	}
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("got %v\nwant %v", got, expected)
	}
}

// express compares with the fields of express-rate-limit, another program. With its names and its unkeyed pk
// ours are the same, without the spaces that are not canonical; it has no pk in RateLimit.
func express(t *testing.T, v vector) {
	var in struct {
		Key              string
		Limit, Remaining int64
		Reset            int64 `json:"resetSeconds"`
		Window           int64 `json:"windowMs"`
	}
	var want struct{ Headers map[string]string }
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	name, _, _ := strings.Cut(strings.Trim(want.Headers["RateLimit"], `"`), `"`)
	limit := slidegate.Per(time.Duration(in.Window)*time.Millisecond, in.Limit).Named(name)
	stands := []standing{{in.Remaining, time.Duration(in.Reset) * time.Second, false}}
	sum := sha256.Sum256([]byte(in.Key))
	for field, partition := range map[string][]byte{"RateLimit": nil, "RateLimit-Policy": []byte(hex.EncodeToString(sum[:])[:12])} {
		h := http.Header{}
		newPlate([]policy{newPolicy(limit)}).write(h, &page{formats: 1 << Draft8, partitions: [][]byte{partition}}, stands)
		if got, want := h.Get(field), strings.ReplaceAll(want.Headers[field], "; ", ";"); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}

func structured(t *testing.T, v vector) {
	var in struct {
		Value, Key any
		Base64     string
	}
	var want struct {
		Error   bool
		Text    string
		Name    string
		Clamped *int64 `json:"clamped_for_q_and_r"`
	}
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	var text []byte
	var err error
	switch v.Area {
	case "sf.string":
		text, err = appendString(nil, in.Value.(string))
	case "sf.key":
		text, err = appendKey(nil, in.Key.(string))
	case "sf.integer":
		var n int64
		if _, err := fmt.Sscan(fmt.Sprint(in.Value), &n); err != nil {
			f, ok := in.Value.(float64)
			if !ok {
				t.Fatal(err)
			}
			n = int64(f)
		}
		if f, ok := in.Value.(float64); ok {
			n = int64(f)
		}
		text, err = appendInteger(nil, n)
		if want.Clamped != nil && clamp(n) != *want.Clamped {
			t.Errorf("clamped to %d, want %d", clamp(n), *want.Clamped)
		}
	case "sf.bytes":
		raw, decodeErr := base64.StdEncoding.DecodeString(in.Base64)
		if decodeErr != nil {
			t.Fatal(decodeErr)
		}
		text = appendBytes(nil, raw)
	case "sf.name_encode":
		if got := EncodeName(in.Value.(string)); got != want.Name {
			t.Errorf("got %q, want %q", got, want.Name)
		}
		return
	}
	if (err != nil) != want.Error || string(text) != want.Text {
		t.Errorf("got %q, %v; want %+v", text, err, want)
	}
}

// retryAfterVector sends a refusal whose limits wait as the vector says through a whole gate, or
// asks the rounding itself where no limit can wait like that.
func retryAfterVector(t *testing.T, v vector) {
	var in struct {
		Denied bool
		Waits  []string `json:"violated_waits"`
		Never  bool
		Format string
	}
	var want map[string]any
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	var got any
	switch {
	case !in.Denied:
		got = firstLine(exhausted(t, time.Minute, nil, 0, 1).Result().Header, "Retry-After")
	case in.Never:
		got = firstLine(exhausted(t, time.Minute, nil, 11, 1).Result().Header, "Retry-After")
	case in.Format == "off":
		got = firstLine(exhausted(t, time.Minute, []Option{Headers()}, 1, 2).Result().Header, "Retry-After")
	default:
		d, err := slidegate.ParseDuration(in.Waits[0])
		if err != nil {
			t.Fatal(err)
		}
		refusing := standing{wait: d, refuses: true}
		got = fmt.Sprint(retryAfter([]standing{{wait: 1000 * time.Hour}, refusing, {refuses: true}}))
		if t8, ok := want["t_of_violated"]; ok && fmt.Sprint(refusing.seconds()) != fmt.Sprint(t8) {
			t.Errorf("t is %d, want %v", refusing.seconds(), t8)
		}
	}
	if !reflect.DeepEqual(got, want["Retry-After"]) {
		t.Errorf("got %v, want %v", got, want["Retry-After"])
	}
}

func firstLine(h http.Header, name string) any {
	if v, ok := h[name]; ok {
		return v[0]
	}
	return nil
}

// exhausted sends n requests of cost through a gate of quota 1 (10 if the cost is larger) and returns
// the last answer.
func exhausted(t *testing.T, window time.Duration, options []Option, cost int64, n int) *httptest.ResponseRecorder {
	t.Helper()
	store := memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(0) }))
	quota := int64(1)
	if cost > 1 {
		quota = 10
	}
	options = append(options, Cost(func(*http.Request) int64 { return cost }))
	g := MustNew(slidegate.MustNew(store, slidegate.Per(window, quota)), options...)
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var w *httptest.ResponseRecorder
	for range n {
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	}
	return w
}

func problem(t *testing.T, v vector) {
	var in struct {
		Case     string
		Violated []string
	}
	var want struct {
		Body        map[string]any
		ContentType string `json:"content_type"`
		Status      int
	}
	read(t, v.Input, &in)
	read(t, v.Expect, &want)
	var p Problem
	switch {
	case in.Case == "quota exceeded":
		p = QuotaExceeded(in.Violated...)
	case strings.HasPrefix(in.Case, "capacity"):
		p = ReducedCapacity(in.Violated...)
	case in.Case == "abuse rule":
		p = AbnormalUsage(in.Violated...)
	case strings.HasPrefix(in.Case, "store down"):
		p = Unavailable()
	default:
		t.Fatalf("unknown case %q", in.Case)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	var body map[string]any
	read(t, w.Body.Bytes(), &body)
	if w.Code != want.Status || w.Header().Get("Content-Type") != want.ContentType || !reflect.DeepEqual(body, want.Body) {
		t.Errorf("got %d %s %v\nwant %+v", w.Code, w.Header().Get("Content-Type"), body, want)
	}
}
