package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/api"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

// unavailable is a store that cannot be asked, and counts who tries.
type unavailable struct{ asked atomic.Int64 }

func (u *unavailable) Bind([]slidegate.Limit) (slidegate.Plan, error) { return u, nil }

func (u *unavailable) fail() error {
	u.asked.Add(1)
	return fmt.Errorf("%w: %w", slidegate.ErrUnavailable, errors.New("the password of redis.internal is wrong"))
}

func (u *unavailable) Take(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, u.fail()
}

func (u *unavailable) Peek(context.Context, string, int64) (slidegate.Answer, error) {
	return slidegate.Answer{}, u.fail()
}

func (u *unavailable) Refund(context.Context, string, slidegate.Answer, int64) error { return u.fail() }

func (u *unavailable) Reset(context.Context, string) error { return u.fail() }

// A fixture is a door on a socket, over a store with a clock that is set.
type fixture struct {
	*testing.T
	url   string
	token string // to show
	store *memstore.Store
	gone  *unavailable
	clock atomic.Int64 // milliseconds
}

// open opens a door: its limiter has two limits; "blocked" admits nothing, and "gone" cannot be asked.
func open(t *testing.T, c api.Config) *fixture {
	t.Helper()
	f := &fixture{T: t, gone: new(unavailable)}
	f.clock.Store(1_796_032_800_000) // 2026-11-30T10:00:00Z
	f.store = memstore.New(memstore.WithClock(func() time.Time { return time.UnixMilli(f.clock.Load()) }))
	limiters := map[string]*slidegate.Limiter{
		"":        slidegate.MustNew(f.store, slidegate.PerSecond(3).Named("burst"), slidegate.PerMinute(5)),
		"blocked": slidegate.Blocked(),
		"gone":    slidegate.MustNew(f.gone, slidegate.PerMinute(5)),
	}
	if c.Limiter == nil {
		c.Limiter = func(name string) *slidegate.Limiter { return limiters[name] }
	}
	door, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fixture) request(method, path, contentType, body string) (*http.Response, string) {
	f.Helper()
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return resp, string(text)
}

func (f *fixture) post(path, body string) (*http.Response, string) {
	f.Helper()
	return f.request(http.MethodPost, path, "application/json", body)
}

func TestTakeAnswersWithTheDecision(t *testing.T) {
	f := open(t, api.Config{})
	f.post("/v1/take", `{"key":"user:42","cost":2}`)
	f.clock.Add(100)
	resp, body := f.post("/v1/take", `{"key":"user:42"}`)
	const admitted = `{"allowed":true,"cost":1,"t":1796032800100,"remaining":0,"reset_ms":1000,"retry_ms":0,"binding":"burst","limits":[` +
		`{"name":"burst","quota":3,"window_ms":1000,"remaining":0,"reset_ms":1000,"retry_ms":0,"refuses":false},` +
		`{"name":"5/1m","quota":5,"window_ms":60000,"remaining":2,"reset_ms":60000,"retry_ms":0,"refuses":false}]}` + "\n"
	if resp.StatusCode != 200 || body != admitted {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for name, want := range map[string]string{
		"RateLimit": `"burst";r=0;t=1, "5/1m";r=2;t=60`, "RateLimit-Policy": `"burst";q=3;w=1, "5/1m";q=5;w=60`,
		"Content-Type": "application/json", "Cache-Control": "no-store", "Retry-After": "",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	resp, body = f.post("/v1/take", `{"key":"user:42","cost":2}`)
	const refused = `{"allowed":false,"cost":2,"t":1796032800100,"remaining":0,"reset_ms":1000,"retry_ms":900,"binding":"burst","limits":[` +
		`{"name":"burst","quota":3,"window_ms":1000,"remaining":0,"reset_ms":1000,"retry_ms":900,"refuses":true},` +
		`{"name":"5/1m","quota":5,"window_ms":60000,"remaining":2,"reset_ms":60000,"retry_ms":0,"refuses":false}]}` + "\n"
	if resp.StatusCode != 429 || body != refused || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
}

// TestRefusalHasRetryAfter also where no fields are wanted.
func TestRefusalHasRetryAfter(t *testing.T) {
	f := open(t, api.Config{Gate: []httpgate.Option{httpgate.Headers()}})
	f.post("/v1/take", `{"key":"a","cost":3}`)
	resp, _ := f.post("/v1/take", `{"key":"a"}`)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("RateLimit") != "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// TestPeekIsWhatTakeWouldAnswer, with status 200 whatever that is, and it changes nothing.
func TestPeekIsWhatTakeWouldAnswer(t *testing.T) {
	f := open(t, api.Config{})
	var before string
	for range 3 {
		resp, body := f.post("/v1/peek", `{"key":"a","cost":3}`)
		if resp.StatusCode != 200 || !strings.Contains(body, `"allowed":true`) || !strings.Contains(body, `"remaining":3`) || before != "" && body != before {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		before = body
	}
	if n := f.store.Len(); n != 0 {
		t.Errorf("a peek made %d keys", n)
	}
	f.post("/v1/take", `{"key":"a","cost":3}`)
	peeked, body := f.post("/v1/peek", `{"key":"a"}`)
	if taken, same := f.post("/v1/take", `{"key":"a"}`); peeked.StatusCode != 200 || taken.StatusCode != 429 || body != same {
		t.Errorf("peek: %d %s\ntake: %d %s", peeked.StatusCode, body, taken.StatusCode, same)
	}
}

func TestResetForgetsAKeyInEveryLimit(t *testing.T) {
	f := open(t, api.Config{})
	f.post("/v1/take", `{"key":"a","cost":3}`)
	f.post("/v1/take", `{"key":"b","cost":3}`)
	if resp, body := f.post("/v1/reset", `{"key":"a"}`); resp.StatusCode != 204 || body != "" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	for key, want := range map[string]int{"a": 200, "b": 429} {
		if resp, _ := f.post("/v1/take", `{"key":"`+key+`","cost":3}`); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", key, resp.StatusCode, want)
		}
	}
}

// secret is in every bad request that can hold it, and must be in no answer to one.
const secret = "user:4711"

// TestBadRequestsAreRefused with what is allowed, without anything of what was sent, and change nothing.
func TestBadRequestsAreRefused(t *testing.T) {
	f := open(t, api.Config{})
	long := strings.Repeat(secret, 100)
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1/take", ``, "the body is no JSON object", 400},
		{"/v1/take", `null`, "the body is no JSON object", 400},
		{"/v1/take", `["user:4711"]`, "the body is no JSON object", 400},
		{"/v1/take", `{"key":"user:4711"`, "the body is no JSON object", 400},
		{"/v1/take", `{"key":"user:4711"} {}`, "the body is no JSON object", 400},
		{"/v1/take", `{'key':'user:4711'}`, "the body is no JSON object", 400},
		{"/v1/take", "{\"key\":\"user:4711\xff\"}", "the body is no JSON object in UTF-8", 400},
		{"/v1/take", `{}`, "key: it is missing", 400},
		{"/v1/take", `{"key":""}`, "key: allowed is a string of 1 to 512 bytes", 400},
		{"/v1/take", `{"key":null}`, "key: allowed is a string", 400},
		{"/v1/take", `{"key":4711}`, "key: allowed is a string", 400},
		{"/v1/take", `{"key":{"user:4711":1}}`, "key: allowed is a string", 400},
		{"/v1/take", `{"key":"` + long + `"}`, "key: allowed is a string of 1 to 512 bytes", 400},
		{"/v1/take", `{"key":"user:4711\ud800"}`, "without U+FFFD", 400},
		{"/v1/take", `{"key":"user:4711","key":"b"}`, "key: it is there twice", 400},
		{"/v1/take", `{"Key":"user:4711"}`, "a member is unknown: allowed is key, cost, limiter", 400},
		{"/v1/take", `{"user:4711":1}`, "a member is unknown", 400},
		{"/v1/take", `{"key cost":"user:4711"}`, "a member is unknown", 400},
		{"/v1/take", `{"":"user:4711"}`, "a member is unknown", 400},
		{"/v1/take", `{"key":"user:4711","op":"peek"}`, "a member is unknown: allowed is key, cost, limiter", 400},
		{"/v1/take", `{"key":"user:4711","cost":-1}`, "cost: allowed is a whole number from 0 to 1000000000000", 400},
		{"/v1/take", `{"key":"user:4711","cost":1.5}`, "cost: allowed is a whole number", 400},
		{"/v1/take", `{"key":"user:4711","cost":1e3}`, "cost: allowed is a whole number", 400},
		{"/v1/take", `{"key":"user:4711","cost":"1"}`, "cost: allowed is a whole number", 400},
		{"/v1/take", `{"key":"user:4711","cost":null}`, "cost: allowed is a whole number", 400},
		{"/v1/take", `{"key":"user:4711","cost":99999999999999999999}`, "cost: allowed is a whole number", 400},
		{"/v1/take", `{"key":"user:4711","cost":4}`, `cost 4 can never fit: limit \"burst\" admits at most 3 per 1s`, 400},
		{"/v1/peek", `{"key":"user:4711","cost":4}`, "cost 4 can never fit", 400},
		{"/v1/take", `{"key":"user:4711","limiter":"user:4711"}`, "limiter: none has that name", 404},
		{"/v1/take", `{"key":"user:4711","limiter":""}`, "limiter: allowed is a string", 400},
		{"/v1/reset", `{"key":"user:4711","cost":1}`, "a member is unknown: allowed is key, limiter", 400},
		{"/v1/take", strings.Repeat(" ", 64<<10) + `{"key":"user:4711"}`, "allowed is a body of up to 65536 bytes", 413},
		{"/v1/batch", `[{"key":"user:4711"}]`, "the body is no JSON object", 400},
		{"/v1/batch", `{}`, "requests: allowed is an array of 1 to 100 requests", 400},
		{"/v1/batch", `{"requests":[]}`, "requests: allowed is an array of 1 to 100 requests", 400},
		{"/v1/batch", `{"requests":{"key":"user:4711"}}`, "requests: allowed is an array of 1 to 100 requests", 400},
		{"/v1/batch", `{"requests":["user:4711"]}`, "requests[0]: the body is no JSON object", 400},
		{"/v1/batch", `{"requests":[{"key":"user:4711"},{"key":7}]}`, "requests[1]: key: allowed is a string", 400},
		{"/v1/batch", `{"requests":[{"key":"user:4711","op":"refund"}]}`, "requests[0]: op: allowed is take, peek or reset", 400},
		{"/v1/batch", `{"requests":[{"op":"reset","key":"user:4711","cost":1}]}`, "requests[0]: cost: a reset has none", 400},
		{"/v1/batch", `{"requests":[` + strings.Repeat(`{"key":"user:4711"},`, 100) + `{"key":"a"}]}`, "requests: allowed are up to 100", 400},
		{"/v1/batch", `{"requests":[],"atomic":true}`, "a member is unknown: allowed is requests", 400},
		{"/v1/batch", strings.Repeat(" ", 1<<20) + `{"requests":[{"key":"user:4711"}]}`, "allowed is a body of up to 1048576 bytes", 413},
		{"/v1/refund", `{"key":"user:4711"}`, "allowed is /v1/take", 404},
		{"/", `{"key":"user:4711"}`, "allowed is /v1/take", 404},
	} {
		resp, body := f.post(c.path, c.body)
		p := readProblem(t, body)
		if resp.StatusCode != c.status || p.Status != c.status || !strings.Contains(body, c.want) || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.80s: %d %v %s; want %d, %s", c.path, c.body, resp.StatusCode, resp.Header, body, c.status, c.want)
		}
		if strings.Contains(body, secret) {
			t.Errorf("%s %.80s: the key is in %s", c.path, c.body, body)
		}
	}
	if n := f.store.Len(); n != 0 {
		t.Errorf("%d keys were charged", n)
	}
}

func readProblem(t *testing.T, body string) (p httpgate.Problem) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Title != http.StatusText(p.Status) || p.Type != "about:blank" || p.Detail == "" {
		t.Errorf("no problem: %s (%v)", body, err)
	}
	return p
}

func TestMethodsAndMediaTypes(t *testing.T) {
	f := open(t, api.Config{})
	const body = `{"key":"a"}`
	for _, c := range []struct {
		method, path, contentType string
		status                    int
		allow                     string
	}{
		{"GET", "/v1/take", "", 405, "POST"},
		{"HEAD", "/v1/take", "", 405, "POST"},
		{"PUT", "/v1/reset", "application/json", 405, "POST"},
		{"OPTIONS", "/v1/batch", "", 405, "POST"},
		{"POST", "/openapi.json", "application/json", 405, "GET, HEAD"},
		{"GET", "/openapi.json", "", 200, ""},
		{"HEAD", "/openapi.json", "", 200, ""},
		{"POST", "/v1/take", "", 415, ""},
		{"POST", "/v1/take", "application/x-www-form-urlencoded", 415, ""},
		{"POST", "/v1/take", "text/plain", 415, ""},
		{"POST", "/v1/take", "application/json;", 200, ""},
		{"POST", "/v1/take", "Application/JSON; charset=utf-8", 200, ""},
	} {
		resp, got := f.request(c.method, c.path, c.contentType, body)
		if resp.StatusCode != c.status || resp.Header.Get("Allow") != c.allow || c.method == "HEAD" && got != "" {
			t.Errorf("%s %s %s: %d %v %s", c.method, c.path, c.contentType, resp.StatusCode, resp.Header, got)
		}
	}
	if _, got := f.request("GET", "/openapi.json", "", ""); got != string(api.Description) {
		t.Error("another description is served")
	}
}

// TestBatchKeepsTheOrder of its results, and of requests about one key.
func TestBatchKeepsTheOrder(t *testing.T) {
	f := open(t, api.Config{})
	resp, body := f.post("/v1/batch", `{"requests":[{"key":"a","cost":2},{"key":"b"},{"key":"a","cost":2},{"op":"peek","key":"a","cost":2},
		{"op":"reset","key":"a"},{"op":"take","key":"a","cost":3},{"key":"c","cost":9},{"key":"a","limiter":"none"},{"key":"x","limiter":"gone"},{"key":"y","limiter":"blocked"}]}`)
	got := readResults(t, body)
	statuses := make([]int, len(got))
	for i, r := range got {
		statuses[i] = r.Status
		if wantsAnswer := r.Status == 200 || r.Status == 429; wantsAnswer != (r.Answer != nil) || (r.Status >= 400 && r.Status != 429) != (r.Problem != nil) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if want := []int{200, 200, 429, 200, 204, 200, 400, 404, 503, 429}; resp.StatusCode != 200 || !slices.Equal(statuses, want) {
		t.Fatalf("%d %v, want %v: %s", resp.StatusCode, statuses, want, body)
	}
	if got[3].Answer.Allowed || got[1].Answer.Remaining != 2 || got[5].Answer.Remaining != 0 || len(got[9].Answer.Limits) != 0 {
		t.Errorf("%s", body)
	}
}

func readResults(t *testing.T, body string) []api.Result {
	t.Helper()
	var got api.Results
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return got.Results
}

func TestBatchOfAHundredKeys(t *testing.T) {
	f := open(t, api.Config{})
	var requests []string
	for i := range 100 {
		requests = append(requests, fmt.Sprintf(`{"key":"k%d","cost":%d}`, i, i%4))
	}
	_, body := f.post("/v1/batch", `{"requests":[`+strings.Join(requests, ",")+`]}`)
	results := readResults(t, body)
	if len(results) != 100 || f.store.Len() != 75 {
		t.Fatalf("%d results, %d keys", len(results), f.store.Len())
	}
	for i, r := range results {
		if r.Status != 200 || r.Answer.Cost != int64(i%4) || r.Answer.Remaining != min(3, 3-int64(i%4)) {
			t.Errorf("%d: %+v", i, r.Answer)
		}
	}
}

// TestStoreIsAway: nothing of what it said is told, and a batch does not wait for it as often as it has requests.
func TestStoreIsAway(t *testing.T) {
	f := open(t, api.Config{})
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/reset"} {
		resp, body := f.post(path, `{"key":"a","limiter":"gone"}`)
		if p := readProblem(t, body); resp.StatusCode != 503 || p.Detail != "the store could not be asked" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	asked := f.gone.asked.Load()
	_, body := f.post("/v1/batch", `{"requests":[`+strings.Repeat(`{"key":"a","limiter":"gone"},`, 50)+`{"key":"b","limiter":"gone"},{"key":"a"}]}`)
	for i, r := range readResults(t, body) {
		if want := map[bool]int{true: 503, false: 200}[i < 51]; r.Status != want {
			t.Errorf("%d: %d, want %d", i, r.Status, want)
		}
	}
	if n := f.gone.asked.Load() - asked; n != 2 {
		t.Errorf("the store was asked %d times about two keys", n)
	}
}

func TestSeveralLimitersWantANameEach(t *testing.T) {
	only := slidegate.MustNew(memstore.New(), slidegate.PerMinute(1))
	f := open(t, api.Config{Limiter: func(name string) *slidegate.Limiter { return map[string]*slidegate.Limiter{"login": only}[name] }})
	if resp, body := f.post("/v1/take", `{"key":"a"}`); resp.StatusCode != 400 || !strings.Contains(body, "limiter: it is missing") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := f.post("/v1/take", `{"key":"a","limiter":"login"}`); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestObserversAreTold(t *testing.T) {
	var mu sync.Mutex
	var events []httpgate.Event
	f := open(t, api.Config{Gate: []httpgate.Option{httpgate.Observe(func(e *httpgate.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, *e)
	})}})
	f.post("/v1/take", `{"key":"a","cost":3}`)
	f.post("/v1/batch", `{"requests":[{"key":"a"},{"key":"a","limiter":"gone"}]}`)
	f.post("/v1/peek", `{"key":"a"}`)
	slices.SortStableFunc(events, func(a, b httpgate.Event) int { return errorFirst(b.Err) - errorFirst(a.Err) })
	if len(events) != 3 || !errors.Is(events[0].Err, slidegate.ErrUnavailable) || !events[1].Decision.Allowed || events[2].Decision.Allowed || events[1].Key != "a" {
		t.Errorf("%+v", events)
	}
}

func errorFirst(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	f := open(t, api.Config{Token: token})
	for _, fields := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer 0123456789abcde"}, {"Bearer 0123456789abcdeF"}, {"Bearer " + token + "0"},
		{"Basic " + token}, {token}, {"Bearer x", "Bearer " + token},
	} {
		for _, path := range []string{"/v1/take", "/openapi.json", "/nowhere"} {
			req, err := http.NewRequest(http.MethodPost, f.url+path, strings.NewReader(`{"key":"a"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": fields}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != `Bearer realm="slidegate"` || bytes.Contains(body, []byte("012345")) {
				t.Errorf("%q at %s: %d %s", fields, path, resp.StatusCode, body)
			}
		}
	}
	if n := f.store.Len(); n != 0 {
		t.Errorf("%d keys were charged", n)
	}
	f.token = token
	if resp, body := f.post("/v1/take", `{"key":"a"}`); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestDescriptionIsTrue: the OpenAPI description is valid, and whatever the door answers to real requests is what it
// says: each status of each path, its media type, its fields, and its body.
func TestDescriptionIsTrue(t *testing.T) {
	ctx := context.Background()
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(ctx); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	plain, locked := open(t, api.Config{}), open(t, api.Config{Token: "0123456789abcdef"})
	ask := func(f *fixture, path, contentType, body string) {
		t.Helper()
		method := http.MethodPost
		if path == "/openapi.json" {
			method = http.MethodGet
		}
		asked := method
		if body == "another method" {
			asked = http.MethodDelete
		}
		resp, text := f.request(asked, path, contentType, body)
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		route, parameters, err := router.FindRoute(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		in := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: parameters, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
		if err := openapi3filter.ValidateRequest(ctx, in); (resp.StatusCode < 400 || resp.StatusCode == 429) && err != nil {
			t.Errorf("%s %s was answered with %d and is against the description: %v", path, body, resp.StatusCode, err)
		}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		if err := openapi3filter.ValidateResponse(ctx, out.SetBodyBytes([]byte(text))); err != nil {
			t.Errorf("%s %.60s: %d: %v", path, body, resp.StatusCode, err)
		}
		seen[fmt.Sprint(method, " ", path, " ", resp.StatusCode)] = true
	}
	const ok, refused, large = `{"key":"a"}`, `{"key":"a","cost":3}`, `{"key":"a","cost":4}`
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/reset"} {
		for _, body := range []string{ok, `{}`, `{"key":"a","limiter":"none"}`, `{"key":"a","limiter":"gone"}`, strings.Repeat(" ", 1<<17), "another method"} {
			ask(plain, path, "application/json", body)
		}
		ask(plain, path, "text/plain", ok)
		ask(locked, path, "application/json", ok)
	}
	ask(plain, "/v1/take", "application/json", ok)
	ask(plain, "/v1/take", "application/json", refused)
	ask(plain, "/v1/take", "application/json", `{"key":"a","limiter":"blocked"}`)
	ask(plain, "/v1/take", "application/json", large)
	ask(plain, "/v1/peek", "application/json", refused)
	batch := `{"requests":[` + strings.Join([]string{ok, refused, large, `{"op":"reset","key":"a"}`, `{"key":"a","limiter":"none"}`, `{"key":"a","limiter":"gone"}`}, ",") + `]}`
	for _, body := range []string{batch, `{}`, strings.Repeat(" ", 1<<21), "another method"} {
		ask(plain, "/v1/batch", "application/json", body)
	}
	ask(plain, "/v1/batch", "text/plain", batch)
	ask(locked, "/v1/batch", "application/json", batch)
	ask(plain, "/openapi.json", "", "")
	ask(plain, "/openapi.json", "", "another method")
	ask(locked, "/openapi.json", "", "")
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if one := fmt.Sprint(method, " ", path, " ", status); !seen[one] {
					t.Errorf("%s is described and was not seen", one)
				}
			}
		}
	}
}

// TestDescriptionHasTheFieldsOfTheTypes, and no others.
func TestDescriptionHasTheFieldsOfTheTypes(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(api.Description, &doc); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{"Answer": api.Answer{}, "Limit": api.Limit{}, "Result": api.Result{}, "Results": api.Results{}, "Problem": httpgate.Problem{}} {
		schema := doc.Components.Schemas[name]
		var members, required []string
		for field := range reflect.TypeOf(value).Fields() {
			member, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "Problem" && (member == "instance" || member == "violated-policies") {
				continue // which no problem of this door has
			}
			members = append(members, member)
			if option == "" {
				required = append(required, member)
			}
		}
		var described []string
		for member := range schema.Properties {
			described = append(described, member)
		}
		if name == "Problem" {
			required = append(required, "detail")
		}
		for _, all := range [][]string{members, required, described, schema.Required} {
			slices.Sort(all)
		}
		if !slices.Equal(members, described) || !slices.Equal(required, schema.Required) {
			t.Errorf("%s has %q, of which %q are always there; described are %q, of which %q", name, members, required, described, schema.Required)
		}
	}
}

// TestDescriptionIsInTheDocumentation, the very one that is served.
func TestDescriptionIsInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/openapi.json")
	if err != nil || !bytes.Equal(text, api.Description) {
		t.Errorf("docs/openapi.json is not cmd/slidegate/internal/api/openapi.json: copy it (%v)", err)
	}
}
