package caddygate

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/memstore"
)

func init() { caddy.RegisterModule(Handler{}) }

// Handler asks a limiter about every request, and lets it pass or answers it. A refused request gets a
// 429 with a Retry-After that is true, and every decided one the RateLimit fields.
type Handler struct {
	// Zone is the name of the budget: handlers of one zone count together where their keys and limits are
	// the same, and all of them say the same store. 1 to 64 letters, digits, dots, dashes and underscores. Default: no
	// name, and the handlers without one are a zone, too.
	Zone string `json:"zone,omitempty"`

	// Limits is one to eight limits in their text form, such as burst=10/1s or plan=100000/1d,counter. A
	// request is admitted only if all of them have room. A limit with a name keeps its history
	// when its quota changes.
	Limits []string `json:"limits,omitempty"`

	// Key is who is counted: parts of text and placeholders. A request for which a placeholder has no value
	// counts under its address. In {http.vars.client_ip} and {http.request.remote.host} an IPv6 address
	// stands as its network. Default: the client's address.
	Key []string `json:"key,omitempty"`

	// Cost is how many units a request spends: a whole number, or a placeholder. What turns out to be no
	// number costs 1, and a cost that can never fit is refused. Default: 1.
	Cost string `json:"cost,omitempty"`

	// IPv6Prefix is how many bits of an IPv6 address tell clients apart, 32 to 128. Default: 56.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// Headers are the formats of the RateLimit fields: draft-8, draft-7, draft-6, legacy, legacy-delta; or
	// none alone, which sends no field, nor Retry-After. Default: draft-8.
	Headers []string `json:"headers,omitempty"`

	// Deny is how refused requests are answered. Default: status 429 and a body that says which limits refused.
	Deny *Deny `json:"deny,omitempty"`

	// Secret keeps keys from the store: every key but the address alone stands there as its HMAC-SHA-256 under
	// the secret, which has at least 32 bytes and should be a placeholder, such as {env.SLIDEGATE_SECRET}. With another
	// one every key starts afresh. Default: none, and keys are stored as they are.
	Secret string `json:"secret,omitempty"`

	// Fail is what becomes of a request that the store could not decide: open lets it pass, closed
	// answers it with 503. Default: open.
	Fail string `json:"fail,omitempty"`

	// Ban refuses a key for a length of its own once it was refused too often. Default: nobody is banned.
	Ban *Ban `json:"ban,omitempty"`

	// Shadow lets every request pass, without fields, and tells the metrics and the log whom the limits would have
	// refused. Default: refusals are refused.
	Shadow bool `json:"shadow,omitempty"`

	// HandleErrors hands every answer of the gate's own to Caddy's error routes, as an error with the status that
	// the answer would have; the fields are set. Default: the gate answers itself.
	HandleErrors bool `json:"handle_errors,omitempty"`

	// Store is where the counts are. Default: the memory of this process.
	Store *Store `json:"store,omitempty"`

	gate   *httpgate.Gate
	kind   string // what Key is made of
	prefix string // of a Key that is one header or one cookie

	warnLax func() // once
}

// Deny is a fixed answer to refused requests.
type Deny struct {
	// Status is 400 to 599. Default: 429.
	Status int `json:"status,omitempty"`

	// Body is plain text, without placeholders. Default: a problem+json object, or a line of plain text, whichever the client
	// accepts.
	Body string `json:"body,omitempty"`
}

// Ban says who is banned, and for how long. All handlers of a zone with equal bans share them.
type Ban struct {
	// Strikes is how many refusals in which time are too many, as a limit: 10/1m bans at the tenth in a minute.
	Strikes string `json:"strikes"`

	// Length is how long a ban is, 1ms to 3650d.
	Length caddy.Duration `json:"length"`
}

// name is what refusals call the ban, as httpgate has it: "ban:" and the name of its strikes.
func (b *Ban) name() string {
	strikes, _ := slidegate.ParseLimit(b.Strikes) // which Provision has read
	if strikes.Name == "" {
		return "ban:" + strikes.String()
	}
	return "ban:" + strikes.Name
}

// CaddyModule implements [caddy.Module].
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.slidegate", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements [caddy.Provisioner]: it builds the gate over the store of its zone.
func (h *Handler) Provision(ctx caddy.Context) error {
	limits, options, err := h.parse()
	if err != nil {
		return err
	}
	module, err := ctx.App(appName)
	if err != nil {
		return err
	}
	app := module.(*App)
	store, err := app.open(h.Zone, h.Store)
	if err != nil {
		return err
	}
	limiter, err := slidegate.New(store, limits...)
	if err != nil {
		return err
	}
	return h.prepare(ctx.Slogger(), limiter, append(options,
		httpgate.Observe(app.metrics.of(h.Zone, limiter.Limits(), h.Ban).observe)))
}

// prepare builds the gate.
func (h *Handler) prepare(logger *slog.Logger, limiter *slidegate.Limiter, options []httpgate.Option) (err error) {
	h.warnLax = sync.OnceFunc(func() {
		logger.Warn("a trusted proxy is believed from the left-most address on, which a client may have written: set trusted_proxies_strict, unless the proxy replaces the header")
	})
	if h.Secret != "" {
		secret, err := resolve("secret", h.Secret)
		if err != nil {
			return err
		}
		options = append(options, httpgate.Secret([]byte(secret)))
	}
	options = append(options, httpgate.AddressFrom(h.addressOf), httpgate.Logger(logger))
	if h.kind = strings.Join(h.Key, " "); h.kind != "" && h.kind != clientIP {
		h.prefix = prefixOf(h.Key)
		options = append(options, httpgate.By(h.keyOf))
	}
	h.gate, err = httpgate.New(limiter, options...)
	return err
}

// parse reads what the settings say. Nothing is opened.
func (h *Handler) parse() (limits []slidegate.Limit, options []httpgate.Option, err error) {
	if !isZone(h.Zone) {
		return nil, nil, fmt.Errorf("zone %q: allowed are 1 to 64 letters, digits, dots, dashes and underscores", h.Zone)
	}
	if len(h.Limits) == 0 {
		return nil, nil, errors.New("no limit: give one, as in limit burst=10/1s")
	}
	for _, text := range h.Limits {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return nil, nil, err
		}
		limits = append(limits, limit)
	}
	limiter, err := slidegate.New(memstore.New(memstore.WithMaxKeys(1)), limits...)
	if err != nil {
		return nil, nil, err
	}
	if slices.Contains(h.Key, "") {
		return nil, nil, errors.New("key: a part is empty")
	}
	if err := h.Store.check(); err != nil {
		return nil, nil, err
	}
	if options, err = h.options(); err == nil {
		_, err = httpgate.New(limiter, options...)
	}
	return limits, options, err
}

// options are those of the gate that need no request and no store.
func (h *Handler) options() (options []httpgate.Option, err error) {
	if h.Cost != "" {
		cost, err := h.costOf()
		if err != nil {
			return nil, err
		}
		options = append(options, httpgate.Cost(cost))
	}
	if h.Secret != "" && !strings.Contains(h.Secret, "{") {
		options = append(options, httpgate.Secret([]byte(h.Secret)))
	}
	if h.IPv6Prefix != 0 {
		options = append(options, httpgate.IPv6Prefix(h.IPv6Prefix))
	}
	if h.Headers != nil {
		formats, err := formatsOf(h.Headers)
		if err != nil {
			return nil, err
		}
		options = append(options, httpgate.Headers(formats...))
	}
	if d := h.Deny; d != nil {
		status, body := d.Status, any(nil)
		if status == 0 {
			status = http.StatusTooManyRequests
		}
		if d.Body != "" {
			body = d.Body
		}
		options = append(options, httpgate.DenyWith(status, body))
	}
	switch h.Fail {
	case "":
	case "open":
		options = append(options, httpgate.FailOpen())
	case "closed":
		options = append(options, httpgate.FailClosed())
	default:
		return nil, fmt.Errorf("fail %q: allowed is open or closed", h.Fail)
	}
	if b := h.Ban; b != nil {
		strikes, err := slidegate.ParseLimit(b.Strikes)
		if err != nil {
			return nil, err
		}
		options = append(options, httpgate.Ban(strikes, time.Duration(b.Length)))
	}
	if h.Shadow {
		options = append(options, httpgate.Shadow())
	}
	return options, nil
}

func formatsOf(names []string) (formats []httpgate.Format, err error) {
	if slices.Equal(names, []string{"none"}) {
		return nil, nil
	}
	for _, name := range names {
		format, err := httpgate.ParseFormat(name)
		if err != nil {
			return nil, err
		}
		formats = append(formats, format)
	}
	if len(formats) == 0 {
		return nil, errors.New("headers: no format: give one or several, or none alone")
	}
	return formats, nil
}

// costOf returns what says how much a request spends.
func (h *Handler) costOf() (func(*http.Request) int64, error) {
	if !strings.Contains(h.Cost, "{") {
		cost, err := strconv.ParseInt(h.Cost, 10, 64)
		if err != nil || cost < 0 || cost > slidegate.MaxQuota {
			return nil, fmt.Errorf("cost %q: allowed is a whole number of 0 to %d, or a placeholder", h.Cost, int64(slidegate.MaxQuota))
		}
		return func(*http.Request) int64 { return cost }, nil
	}
	return func(r *http.Request) int64 {
		cost, err := strconv.ParseInt(replacerOf(r).ReplaceAll(h.Cost, ""), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range it is the farthest there is, which never fits
			return 1
		}
		return cost
	}, nil
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	if isLax(r) {
		h.warnLax()
	}
	admitted := http.HandlerFunc(func(to http.ResponseWriter, decided *http.Request) {
		if h.HandleErrors {
			to = w
		}
		*r = *decided // in place, for the placeholders speak of this very request
		err = next.ServeHTTP(to, r)
	})
	if !h.HandleErrors {
		h.gate.Wrap(admitted).ServeHTTP(w, r)
		return err
	}
	kept := &withheld{ResponseWriter: w}
	h.gate.Wrap(admitted).ServeHTTP(kept, r)
	if kept.status != 0 {
		return kept.asError()
	}
	return err
}

// A withheld writer keeps an answer of the gate from the client: of it, the fields are set, and the rest
// becomes an error.
type withheld struct {
	http.ResponseWriter
	status int
}

func (w *withheld) WriteHeader(status int) { w.status = status }

func (w *withheld) Write(b []byte) (int, error) { return len(b), nil }

var errRefused = errors.New("slidegate: the request was refused")

// asError returns the answer as Caddy's error routes take it. What speaks of the body that was withheld
// goes.
func (w *withheld) asError() error {
	for _, name := range []string{"Content-Type", "Content-Length", "X-Content-Type-Options"} {
		w.Header().Del(name)
	}
	return caddyhttp.Error(w.status, errRefused)
}

func replacerOf(r *http.Request) *caddy.Replacer {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
