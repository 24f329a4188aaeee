// Package admin is the door of those who run a server: how a key stands and why, what was refused, which rules hold,
// and the changes that people make by hand, each of which is written down.
package admin

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/httpgate"
)

// The most that a request may send, in bytes, and how long that may take.
const (
	maxBody  = 64 << 10
	patience = 10 * time.Second
)

// Description is the OpenAPI description of the door, which it serves at /openapi.json.
//
//go:embed openapi.json
var Description []byte

// A Config is what a door is told. Its functions are called by many goroutines at a time.
type Config struct {
	// Open answers what needs no token: health, readiness and metrics.
	Open http.Handler

	// Token is what callers must show as their bearer token. Without one only a door that IsPrivate opens more than Open.
	Token string

	// IsPrivate tells of a Unix socket, whose mode says who may use it.
	IsPrivate bool

	// Counted returns a key as it is counted: an IPv6 address by its network.
	Counted func(key string) string

	// Counts returns what counts a key: the rule of a name or, if that is empty, all rules. The plan may be empty for that
	// of the key. It is false where no rule or plan has the name.
	Counts func(rule, plan, key string) ([]Count, bool)

	// Store is where charges can be listed: that of the limiters, without what is wrapped around it.
	Store slidegate.Store

	// Rules returns the rules that hold, as JSON has them.
	Rules func() any

	// Unban ends a ban that rules have put on a key.
	Unban func(r *http.Request, key string) error

	Bans     *bans.List
	Refusals *Refusals
	Audit    *Audit
}

// A Count is a rule that counts a key, under the key that it has there.
type Count struct {
	Rule    string
	Plan    string
	Key     string
	Limiter *slidegate.Limiter
}

type door struct {
	Config
	token *config.Token // nil for none
	pprof http.Handler
}

// New returns the door. It is safe for concurrent use.
func New(c Config) http.Handler {
	return &door{Config: c, token: config.NewToken(c.Token), pprof: profiles()}
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// An endpoint is what can be asked for at a path.
type endpoint struct {
	methods []string
	serve   func(*door, http.ResponseWriter, *http.Request)
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

var endpoints = map[string]endpoint{
	"/openapi.json": {get, (*door).serveDescription},
	"/v1/rules":     {get, (*door).serveRules},
	"/v1/refusals":  {get, (*door).serveRefusals},
	"/v1/bans":      {get, (*door).serveBans},
	"/v1/inspect":   {post, (*door).serveInspect},
	"/v1/reset":     {post, (*door).serveReset},
	"/v1/ban":       {post, (*door).serveBan},
	"/v1/unban":     {post, (*door).serveUnban},
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, ok := endpoints[r.URL.Path]
	if strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
		e, ok = endpoint{append(get, post...), func(d *door, w http.ResponseWriter, r *http.Request) { d.pprof.ServeHTTP(w, r) }}, true
	}
	switch {
	case !ok:
		d.Open.ServeHTTP(w, r)
	case d.token == nil && !d.IsPrivate:
		refuse(w, r, http.StatusForbidden, "this shows keys or changes what holds: start serve with --admin-token-file or $SLIDEGATE_ADMIN_TOKEN, or with --admin unix:/PATH")
	case isFromPage(r):
		refuse(w, r, http.StatusForbidden, "no page of a browser may ask: there is an Origin, or the Host is neither an address nor localhost")
	case !d.token.IsShown(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="slidegate admin"`)
		refuse(w, r, http.StatusUnauthorized, "a bearer token is needed, and it is that of --admin-token-file")
	case !slices.Contains(e.methods, r.Method):
		w.Header().Set("Allow", strings.Join(e.methods, ", "))
		refuse(w, r, http.StatusMethodNotAllowed, "allowed is "+strings.Join(e.methods, " and "))
	default:
		e.serve(d, w, r)
	}
}

// isFromPage tells of a request that a page in a browser on this machine may have made: one that says so, and one for
// a foreign name that leads to a loopback address, which is how a page gets at such a server as if it were its own.
func isFromPage(r *http.Request) bool {
	if len(r.Header["Origin"]) > 0 || slices.Contains([]string{"cross-site", "same-site"}, r.Header.Get("Sec-Fetch-Site")) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	_, err := netip.ParseAddr(host)
	return err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost")
}

func (d *door) serveDescription(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(Description)))
	_, _ = w.Write(Description) // net/http leaves the body of a HEAD out
}

func (d *door) serveRules(w http.ResponseWriter, _ *http.Request) { write(w, d.Rules()) }

// read decodes the body of a request into what is asked, or answers it. A form, which a page of any site can have a
// browser send, is not JSON.
func read(w http.ResponseWriter, r *http.Request, asked any) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || r.Header.Get("Content-Encoding") != "" {
		refuse(w, r, http.StatusUnsupportedMediaType, "allowed is Content-Type: application/json, without a Content-Encoding")
		return false
	}
	in := http.NewResponseController(w)
	_ = in.SetReadDeadline(time.Now().Add(patience)) // a writer without deadlines is a test's
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = in.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, r, http.StatusRequestEntityTooLarge, "allowed is a body of up to "+strconv.Itoa(maxBody)+" bytes")
		return false
	case err != nil:
		refuse(w, r, http.StatusBadRequest, "the body ends before its end")
		return false
	}
	if detail := decode(body, asked); detail != "" {
		refuse(w, r, http.StatusBadRequest, detail)
		return false
	}
	return true
}

// decode returns what is wrong with a body, without a value of it, which may be a key.
func decode(body []byte, asked any) (wrong string) {
	if !utf8.Valid(body) || !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return "the body is no JSON object in UTF-8"
	}
	if wrong := wrongMember(body); wrong != "" {
		return wrong
	}
	var mistyped *json.UnmarshalTypeError
	if errors.As(json.Unmarshal(body, asked), &mistyped) {
		return mistyped.Field + ": it is no " + mistyped.Type.String()
	}
	return ""
}

// members are those that a request may have, each once and in the very case: encoding/json takes the last of several, and Key
// for key, where something that looks at requests in between may take another.
var members = []string{"key", "rule", "plan", "charges", "length", "reason"}

// wrongMember looks at the names in an object that is valid.
func wrongMember(body []byte) string {
	var seen []string
	decoder := json.NewDecoder(bytes.NewReader(body))
	_, _ = decoder.Token() // the brace
	for decoder.More() {
		token, _ := decoder.Token()
		name, _ := token.(string)
		switch {
		case !slices.Contains(members, name):
			return "a member is unknown"
		case slices.Contains(seen, name):
			return name + ": it is there twice"
		}
		seen = append(seen, name)
		var value json.RawMessage
		_ = decoder.Decode(&value)
	}
	return ""
}

// refuse answers with a problem. The detail holds nothing of what a client sent.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	httpgate.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}.ServeHTTP(w, r)
}

func write(w http.ResponseWriter, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic("admin: " + err.Error()) // of types that are ours
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(body, '\n')) // the caller's going away is no concern here
}
