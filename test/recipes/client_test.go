package recipes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// standing is a memory store and its clock, which stands still until it is moved.
func standing() (*gatetest.Clock, *memstore.Store) {
	clock := gatetest.NewClock(time.Unix(0, 0))
	return clock, memstore.New(memstore.WithClock(clock.Now))
}

// ask has a client send a request n times, one after another, to a server of handler, and prints what was
// answered, equal answers as one. A request is a method, a path and a form, such as "POST /login user=ann", with
// "chunked" behind if it is not to say beforehand how long it is, and a field is one of a header, such as "Tenant: acme". Each # in them is the number of the request; in the address of
// the client it goes from 1 to 250 and begins again.
func ask(n int, handler http.Handler, from, request string, fields ...string) {
	var all []string
	for i := range n {
		number := strings.NewReplacer("#", strconv.Itoa(i+1))
		words := append(strings.Fields(number.Replace(request)), "")
		r := httptest.NewRequest(words[0], words[1], strings.NewReader(words[2]))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if words[len(words)-2] == "chunked" {
			r.ContentLength = -1
		}
		for _, field := range fields {
			name, value, _ := strings.Cut(number.Replace(field), ": ")
			r.Header.Set(name, value)
		}
		all = append(all, send(handler, strings.ReplaceAll(from, "#", strconv.Itoa(i%250+1)), r))
	}
	fmt.Println(together(all))
}

// upload sends files to a server of handler, such as one of "4 MB", or of "1 MB, chunked" if it is not to
// say beforehand how long it is.
func upload(handler http.Handler, files ...string) {
	var all []string
	for _, file := range files {
		size, _, _ := strings.Cut(file, " MB")
		n, err := strconv.Atoi(size)
		if err != nil {
			panic(err)
		}
		r := httptest.NewRequest("PUT", "/file", bytes.NewReader(make([]byte, n<<20)))
		if strings.HasSuffix(file, "chunked") {
			r.ContentLength = -1
		}
		all = append(all, send(handler, "203.0.113.7", r))
	}
	fmt.Println(together(all))
}

// send sends a request to a server of handler, to which it comes from an address, and returns what read says.
func send(handler http.Handler, from string, r *http.Request) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = net.JoinHostPort(from, "4711")
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		panic(err)
	}
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", target.Scheme, target.Host
	resp, err := server.Client().Do(r)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	return read(resp)
}

// together says of equal answers in a row how many they are.
func together(answers []string) string {
	var runs []string
	for len(answers) > 0 {
		n := slices.IndexFunc(answers, func(s string) bool { return s != answers[0] })
		if n < 0 {
			n = len(answers)
		}
		run := answers[0]
		if n > 1 {
			run = fmt.Sprintf("%d × %s", n, run)
		}
		runs, answers = append(runs, run), answers[n:]
	}
	return strings.Join(runs, "; ")
}

// read says what an answer is: its status, and of a refusal who refused and how long to wait.
func read(resp *http.Response) string {
	line := strconv.Itoa(resp.StatusCode)
	var problem struct {
		Violated []string `json:"violated-policies"`
	}
	if json.NewDecoder(resp.Body).Decode(&problem) == nil && len(problem.Violated) > 0 {
		line += " " + strings.Join(problem.Violated, ", ")
	}
	if wait := resp.Header.Get("Retry-After"); wait != "" {
		line += ", again in " + wait + " s"
	}
	return line
}

// tenant is who has been verified by a handler further out. Here it is whoever says so.
func tenant(r *http.Request) (string, bool) {
	name := r.Header.Get("Tenant")
	return name, name != ""
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
