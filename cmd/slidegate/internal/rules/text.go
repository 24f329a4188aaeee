package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/httpgate"
)

// The types of this file are what a file holds as text. Each reads itself and says in its error what is
// allowed; the decoder says which field it was, and what it had.

// A Name is that of a rule, a plan, a domain or an upstream.
type Name string

const namePattern = `^[A-Za-z][A-Za-z0-9_.-]{0,39}$`

var isName = regexp.MustCompile(namePattern)

// UnmarshalText implements encoding.TextUnmarshaler, as those below do.
func (n *Name) UnmarshalText(text []byte) error {
	*n = Name(text)
	if !isName.Match(text) {
		return errors.New("allowed are 1 to 40 letters, digits, '-', '_' and '.', a letter first")
	}
	return nil
}

// one reads one of some words.
func one[T ~string](to *T, text []byte, words []string) error {
	if !slices.Contains(words, string(text)) {
		return fmt.Errorf("%sallowed is %s", didYouMean(string(text), words), inWords(words))
	}
	*to = T(text)
	return nil
}

// Match says which of the rules that match a request hold.
type Match string

// The ways to match. The empty Match is First.
const (
	First Match = "first"
	All   Match = "all"
)

var matches = []string{string(First), string(All)}

func (m *Match) UnmarshalText(text []byte) error { return one(m, text, matches) }

// Mode says what becomes of what a rule decides.
type Mode string

// The modes. The empty Mode is Enforce.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
	Off     Mode = "off"
)

var modes = []string{string(Enforce), string(Shadow), string(Off)}

func (m *Mode) UnmarshalText(text []byte) error { return one(m, text, modes) }

// Policy says what becomes of requests that cannot be decided. The empty Policy is what the flag says.
type Policy string

var policies = []string{"open", "closed"}

func (p *Policy) UnmarshalText(text []byte) error { return one(p, text, policies) }

// A Method is that of a request.
type Method string

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace,
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "QUERY",
}

func (m *Method) UnmarshalText(text []byte) error { return one(m, text, methods) }

// A Format is one of the generations of the RateLimit fields, or none.
type Format string

var formats = []string{"draft-8", "draft-9", "draft-10", "draft-11", "draft-7", "draft-6", "legacy", "legacy-delta", "none"}

func (f *Format) UnmarshalText(text []byte) error { return one(f, text, formats) }

// A Host is a name, or all names below one.
type Host struct {
	name  string
	below bool
}

const hostPattern = `^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`

var isHost = regexp.MustCompile(hostPattern)

func (h *Host) UnmarshalText(text []byte) error {
	if !isHost.Match(text) {
		return errors.New("allowed is a name without a port, such as shop.example, or *.shop.example for all names below it")
	}
	h.name, h.below = strings.CutPrefix(strings.ToLower(string(text)), "*.")
	return nil
}

func (h Host) String() string {
	if h.below {
		return "*." + h.name
	}
	return h.name
}

// A Field is the name of a header.
type Field string

const fieldPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"

var isField = regexp.MustCompile(fieldPattern)

func (f *Field) UnmarshalText(text []byte) error {
	if !isField.Match(text) {
		return errors.New("allowed is the name of a header, such as X-Api-Key")
	}
	if *f = Field(textproto.CanonicalMIMEHeaderKey(string(text))); *f == "Host" {
		return errors.New("the host is no header here: use the field host")
	}
	return nil
}

// A HeaderTest says what a header of a request has to be.
type HeaderTest struct {
	present, absent bool
	values          []string
}

func (t *HeaderTest) readNode(d *decoder, field string, n *yaml.Node) {
	items := []*yaml.Node{n}
	switch {
	case n.ShortTag() == "!!bool":
		t.present = strings.EqualFold(n.Value, "true")
		t.absent = !t.present
		return
	case n.Kind == yaml.SequenceNode:
		items = n.Content
	}
	if len(items) == 0 {
		d.errorf(n.Line, "%s is an empty list: allowed is true, false, a value, or several", field)
	}
	for _, item := range items {
		if text, ok := d.scalar(field, item); ok {
			t.values = append(t.values, text)
		}
	}
}

func (t HeaderTest) String() string {
	switch {
	case t.present:
		return "true"
	case t.absent:
		return "false"
	}
	return strings.Join(t.values, " or ")
}

// A HeaderName is header:NAME.
type HeaderName string

const headerNamePattern = "^header:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"

func (h *HeaderName) UnmarshalText(text []byte) error {
	name, ok := strings.CutPrefix(string(text), "header:")
	if !ok || !isField.MatchString(name) {
		return errors.New("allowed is header:NAME, such as header:X-Plan")
	}
	*h = HeaderName(textproto.CanonicalMIMEHeaderKey(name))
	return nil
}

// A Network is that of clients.
type Network struct{ netip.Prefix }

func (n *Network) UnmarshalText(text []byte) error {
	const allowed = "allowed is a network such as 10.0.0.0/8, or an address"
	if addr, err := netip.ParseAddr(string(text)); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		n.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	p, err := netip.ParsePrefix(string(text))
	if err != nil || p.Addr().Is4In6() {
		return errors.New(allowed)
	}
	if p != p.Masked() {
		return fmt.Errorf("the address has more bits than the network: did you mean %s? %s", p.Masked(), allowed)
	}
	n.Prefix = p
	return nil
}

// A Key is a key expression.
type Key struct{ *keyexpr.Expr }

func (k *Key) UnmarshalText(text []byte) error {
	e, err := keyexpr.Parse(string(text))
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), fmt.Sprintf("key %q: ", text)))
	}
	k.Expr = e
	return nil
}

// A Limit is one in text form.
type Limit struct{ slidegate.Limit }

const limitPattern = `^([ -<>-~]{1,64}=)?[0-9]{1,13}/[^,=/]+(,log|,counter|,resolution=[^,]+)*$`

func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := slidegate.ParseLimit(string(text))
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": "))
		return errors.New(strings.TrimPrefix(err.Error(), strconv.Quote(string(text))+": "))
	}
	l.Limit = parsed
	return nil
}

// windowOf is the window of a limit in text form, such as 15m.
func windowOf(l slidegate.Limit) string {
	_, window, _ := strings.Cut(slidegate.Per(l.Window, 1).String(), "/")
	return window
}

// Limits are those of a rule or of a plan: several, or a word instead.
type Limits struct {
	List []slidegate.Limit
	Word string // unlimited or blocked
}

const (
	unlimited = "unlimited"
	blocked   = "blocked"
)

func (l *Limits) readNode(d *decoder, field string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && (n.Value == unlimited || n.Value == blocked) {
		l.Word = n.Value
		return
	}
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null":
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode || len(items) < 1 || len(items) > slidegate.MaxLimits:
		d.errorf(n.Line, "%s: allowed are 1 to %d limits such as 100/1m, or the word unlimited or blocked", field, slidegate.MaxLimits)
		return
	}
	windows := map[string]bool{}
	for _, item := range items {
		before := len(d.problems)
		var one Limit
		if d.text(field, item, &one); len(d.problems) > before {
			continue
		}
		name := shortName(one.Limit)
		if windows[name] {
			d.errorf(item.Line, "%s %q: two limits are called %s: give one another name, as in burst=%s", field, item.Value, name, item.Value)
		}
		windows[name] = true
		l.List = append(l.List, one.Limit)
	}
}

func (l Limits) String() string {
	if l.Word != "" {
		return l.Word
	}
	texts := make([]string, len(l.List))
	for i, limit := range l.List {
		texts[i] = limit.String()
	}
	return strings.Join(texts, " and ")
}

// A Cost is what a request spends.
type Cost struct {
	units  int64
	header string // where it is said, if it is
}

func (c *Cost) readNode(d *decoder, field string, n *yaml.Node) {
	var name HeaderName
	units, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.ShortTag() == "!!int" && err == nil && units >= 1 && units <= slidegate.MaxQuota:
		c.units = units
	case n.ShortTag() == "!!str" && name.UnmarshalText([]byte(n.Value)) == nil:
		c.header = string(name)
	default:
		d.errorf(n.Line, "%s %s: allowed is a whole number from 1, or header:NAME", field, kindOf(n))
	}
}

func (c *Cost) String() string {
	switch {
	case c == nil:
		return "1"
	case c.header != "":
		return "header:" + c.header
	}
	return strconv.FormatInt(c.units, 10)
}

// A Duration is a length of time above 0.
type Duration struct{ time.Duration }

func (l *Duration) UnmarshalText(text []byte) (err error) {
	const longest = slidegate.MaxWindow
	l.Duration, err = slidegate.ParseDuration(string(text))
	if err != nil || l.Duration < time.Millisecond || l.Duration > longest || l.Duration%time.Millisecond != 0 {
		return errors.New("allowed is 1ms to 3650d in whole milliseconds, such as 90s, 1h or 7d")
	}
	return nil
}

func (l Duration) String() string {
	return windowOf(slidegate.Limit{Window: l.Duration})
}

// A Status is a status of an answer, or a class of them.
type Status struct{ from, to int }

const statusPattern = `^[2-5]xx$`

func (s *Status) readNode(d *decoder, field string, n *yaml.Node) {
	code, err := strconv.Atoi(n.Value)
	switch {
	case n.ShortTag() == "!!int" && err == nil && code >= 200 && code <= 599:
		s.from, s.to = code, code
	case n.Kind == yaml.ScalarNode && regexp.MustCompile(statusPattern).MatchString(n.Value):
		s.from = int(n.Value[0]-'0') * 100
		s.to = s.from + 99
	default:
		d.errorf(n.Line, "%s %s: allowed is a status from 200 to 599, or a class such as 5xx", field, kindOf(n))
	}
}

func (s Status) String() string {
	if s.from == s.to {
		return strconv.Itoa(s.from)
	}
	return fmt.Sprintf("%dxx", s.from/100)
}

// A JSON is any value that JSON has.
type JSON struct{ text string }

func (j *JSON) readNode(d *decoder, field string, n *yaml.Node) {
	var value any
	err := n.Decode(&value)
	var text []byte
	if err == nil {
		text, err = json.Marshal(value)
	}
	if err != nil {
		d.errorf(n.Line, "%s cannot be written as JSON: allowed are texts, numbers, true, false, null, lists, and mappings with names of text", field)
	}
	j.text = string(text)
}

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j.text), nil }

// An Entry is what is exempt or denied.
type Entry string

func (e *Entry) UnmarshalText(text []byte) error {
	*e = Entry(text)
	_, err := httpgate.New(slidegate.Unlimited(), httpgate.Exempt(string(text)))
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), fmt.Sprintf("Exempt %q: ", text))
		return errors.New(why)
	}
	return nil
}

// A URL is that of an upstream.
type URL struct{ *url.URL }

func (u *URL) UnmarshalText(text []byte) (err error) {
	u.URL, err = config.Upstream(string(text))
	return err
}

// An OverrideKey is a key as it is counted.
type OverrideKey string

func (k *OverrideKey) UnmarshalText(text []byte) error {
	*k = OverrideKey(text)
	if len(text) == 0 || len(text) > maxKey || strings.TrimSpace(string(text)) != string(text) {
		return fmt.Errorf("allowed is a key as it is counted, such as ip:203.0.113.9, of up to %d bytes", maxKey)
	}
	return nil
}

// maxKey is the longest key that is counted as it is, in bytes.
const maxKey = 512
