package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
)

// What a request may ask for.
const (
	maxKey      = 512 // bytes: a gate stores a longer key as its hash
	maxReason   = 500 // bytes
	maxCharges  = 10_000
	fewCharges  = 100 // unless a request says otherwise
	longestBan  = slidegate.MaxWindow
	shortestBan = time.Millisecond
)

// An asked is what a request asks. Each kind of request has some of the members.
type asked struct {
	Key     string `json:"key"`
	Rule    string `json:"rule"`
	Plan    string `json:"plan"`
	Charges *int   `json:"charges"`
	Length  string `json:"length"`
	Reason  string `json:"reason"`
}

// readKey reads a request that may have some members beside its key, or answers it.
func (d *door) readKey(w http.ResponseWriter, r *http.Request, members ...string) (q asked, ok bool) {
	if !read(w, r, &q) {
		return q, false
	}
	given := map[string]bool{"rule": q.Rule != "", "plan": q.Plan != "", "charges": q.Charges != nil, "length": q.Length != "", "reason": q.Reason != ""}
	for name, is := range given {
		if is && !slices.Contains(members, name) {
			refuse(w, r, http.StatusBadRequest, name+": this request has none")
			return q, false
		}
	}
	switch {
	case q.Key == "" || len(q.Key) > maxKey || strings.ContainsRune(q.Key, '\ufffd'):
		refuse(w, r, http.StatusBadRequest, fmt.Sprintf("key: allowed is a string of 1 to %d bytes without U+FFFD", maxKey))
	case q.Charges != nil && (*q.Charges < 0 || *q.Charges > maxCharges):
		refuse(w, r, http.StatusBadRequest, fmt.Sprintf("charges: allowed is a whole number from 0 to %d", maxCharges))
	case len(q.Reason) > maxReason:
		refuse(w, r, http.StatusBadRequest, fmt.Sprintf("reason: allowed is a string of up to %d bytes", maxReason))
	default:
		q.Key = d.Counted(q.Key)
		return q, true
	}
	return q, false
}

// counts returns what counts the key of a request, or answers it.
func (d *door) counts(w http.ResponseWriter, r *http.Request, q *asked) ([]Count, bool) {
	counts, ok := d.Counts(q.Rule, q.Plan, q.Key)
	if !ok {
		refuse(w, r, http.StatusNotFound, fmt.Sprintf("no rule is called %q, or it has no plan %q: /v1/rules has the names", q.Rule, q.Plan))
	}
	return counts, ok
}

// An Inspection is how a key stands.
type Inspection struct {
	Key   string   `json:"key"` // as it is counted
	Ban   *Ban     `json:"ban,omitempty"`
	Rules []Counts `json:"rules"`
}

// Counts is how a key stands in one rule. Without rules of a file there is one, whose name is empty.
type Counts struct {
	Rule    string   `json:"rule"`
	Plan    string   `json:"plan,omitempty"`
	Key     string   `json:"key"` // which has the rule's domain before it
	Time    int64    `json:"t"`   // the store's clock, in milliseconds since the Unix epoch
	Allowed bool     `json:"allowed"`
	RetryMS int64    `json:"retry_ms"`
	Limits  []Limits `json:"limits"`
}

// Limits is how a key stands in one limit.
type Limits struct {
	Name      string   `json:"name"`
	Limit     string   `json:"limit"`
	Quota     int64    `json:"quota"`
	WindowMS  int64    `json:"window_ms"`
	Used      int64    `json:"used"`
	Remaining int64    `json:"remaining"`
	ResetMS   int64    `json:"reset_ms"`
	RetryMS   int64    `json:"retry_ms"`
	Charges   []Charge `json:"charges"` // that count, the one that leaves first before others
	More      bool     `json:"more"`    // there are more of them
}

// A Charge is units that count until they leave: of a counter, those of a window, which lose weight before.
type Charge struct {
	Time   int64 `json:"t"`
	Units  int64 `json:"units"`
	Leaves int64 `json:"leaves_t"`
}

func (d *door) serveInspect(w http.ResponseWriter, r *http.Request) {
	q, ok := d.readKey(w, r, "rule", "plan", "charges")
	if !ok {
		return
	}
	counts, ok := d.counts(w, r, &q)
	if !ok {
		return
	}
	most := fewCharges
	if q.Charges != nil {
		most = *q.Charges
	}
	answer := Inspection{Key: q.Key, Ban: d.banOf(q.Key), Rules: []Counts{}}
	for _, c := range counts {
		one, err := d.inspect(r, c, most)
		if err != nil {
			undecided(w, r, err)
			return
		}
		answer.Rules = append(answer.Rules, one)
	}
	write(w, answer)
}

// inspect asks the store itself, past bans and remembered refusals: how would the key stand without them?
func (d *door) inspect(r *http.Request, c Count, most int) (Counts, error) {
	one := Counts{Rule: c.Rule, Plan: c.Plan, Key: c.Key, Allowed: true, Limits: []Limits{}}
	limits := c.Limiter.Limits()
	if len(limits) == 0 { // of a rule that is unlimited or blocked
		decision, err := c.Limiter.Peek(r.Context(), c.Key)
		one.Allowed = decision.Allowed
		return one, err
	}
	limiter, err := slidegate.New(d.Store, limits...)
	if err != nil {
		return one, err
	}
	charges, err := limiter.Charges(r.Context(), c.Key, most+1)
	if err != nil {
		return one, err
	}
	decision, err := limiter.Peek(r.Context(), c.Key)
	if err != nil {
		return one, err
	}
	one.Time, one.Allowed, one.RetryMS = decision.At().UnixMilli(), decision.Allowed, decision.RetryAfter().Milliseconds()
	for i := range limits {
		one.Limits = append(one.Limits, limitOf(decision.State(i), charges[i], most))
	}
	return one, nil
}

func limitOf(s slidegate.State, charges []slidegate.Charge, most int) Limits {
	l := Limits{
		Name: s.Limit.Name, Limit: s.Limit.String(), Quota: s.Limit.Quota, WindowMS: s.Limit.Window.Milliseconds(), Used: s.Limit.Quota - s.Remaining,
		Remaining: s.Remaining, ResetMS: s.ResetIn.Milliseconds(), RetryMS: s.RetryIn.Milliseconds(), Charges: []Charge{}, More: len(charges) > most,
	}
	life := l.WindowMS
	if s.Limit.Algorithm == slidegate.SlidingCounter {
		life *= 2
	} else if !l.More {
		l.Used = 0 // which may be more than a quota that was lowered
		for _, c := range charges {
			l.Used += c.Units
		}
	}
	for _, c := range charges[:min(most, len(charges))] {
		l.Charges = append(l.Charges, Charge{c.At, c.Units, c.At + life})
	}
	return l
}

// A Reset says where a key was forgotten.
type Reset struct {
	Key   string   `json:"key"`
	Rules []string `json:"rules"`
}

func (d *door) serveReset(w http.ResponseWriter, r *http.Request) {
	q, ok := d.readKey(w, r, "rule", "plan")
	if !ok {
		return
	}
	counts, ok := d.counts(w, r, &q)
	if !ok {
		return
	}
	answer := Reset{Key: q.Key, Rules: []string{}}
	d.change(w, r, Change{Action: "reset", Key: q.Key, Rule: q.Rule}, func() (any, error) {
		for _, c := range counts {
			if err := c.Limiter.Reset(r.Context(), c.Key); err != nil {
				return nil, err
			}
			answer.Rules = append(answer.Rules, c.Rule)
		}
		return answer, nil
	})
}

// A Ban is a key that is refused, whatever its limits. Times are in milliseconds since the Unix epoch.
type Ban struct {
	Key     string `json:"key"`
	By      string `json:"by"` // admin, or the rule whose ban it is
	Since   int64  `json:"since_t"`
	Until   int64  `json:"until_t"`
	Reason  string `json:"reason,omitempty"`
	RetryMS int64  `json:"retry_ms"`
}

func banOf(b bans.Ban) Ban {
	return Ban{Key: b.Key, By: "admin", Since: b.Since.UnixMilli(), Until: b.Until.UnixMilli(), Reason: b.Reason, RetryMS: max(0, time.Until(b.Until).Milliseconds())}
}

// banOf returns the ban of a key, nil if there is none.
func (d *door) banOf(key string) *Ban {
	until := d.Bans.Banned(key)
	for _, b := range d.allBans() {
		if b.Key == key || !until.IsZero() && b.Until == until.UnixMilli() {
			return &b
		}
	}
	return nil
}

// allBans are those of people, and those of rules that began in this process.
func (d *door) allBans() []Ban {
	all := d.Refusals.bans()
	for _, b := range d.Bans.All() {
		all = append(all, banOf(b))
	}
	slices.SortStableFunc(all, func(a, b Ban) int { return int(min(1, max(-1, a.Until-b.Until))) })
	return all
}

// Bans are all that are known.
type Bans struct {
	Bans []Ban `json:"bans"`
}

func (d *door) serveBans(w http.ResponseWriter, _ *http.Request) {
	write(w, Bans{append([]Ban{}, d.allBans()...)})
}

func (d *door) serveBan(w http.ResponseWriter, r *http.Request) {
	q, ok := d.readKey(w, r, "length", "reason")
	if !ok {
		return
	}
	length, err := slidegate.ParseDuration(q.Length)
	if err != nil || length < shortestBan || length > longestBan || length%time.Millisecond != 0 {
		refuse(w, r, http.StatusBadRequest, "length: allowed is a duration of 1ms to 3650d in whole milliseconds, such as 1h")
		return
	}
	d.change(w, r, Change{Action: "ban", Key: q.Key, Length: q.Length, Reason: q.Reason}, func() (any, error) {
		b, err := d.Bans.Add(r.Context(), q.Key, length, q.Reason)
		return banOf(b), err
	})
}

// An Unban says whether there was a ban.
type Unban struct {
	Key    string `json:"key"`
	Banned bool   `json:"banned"`
}

// serveUnban ends the bans of people and those of rules alike.
func (d *door) serveUnban(w http.ResponseWriter, r *http.Request) {
	q, ok := d.readKey(w, r)
	if !ok {
		return
	}
	d.change(w, r, Change{Action: "unban", Key: q.Key}, func() (any, error) {
		there, err := d.Bans.Remove(r.Context(), q.Key)
		if err == nil {
			err = d.Unban(r, q.Key)
		}
		if err == nil && d.Refusals.unban(q.Key) {
			there = true
		}
		return Unban{q.Key, there}, err
	})
}

// change makes a change and writes it down: before, or it is not made, and after, with what came of it.
func (d *door) change(w http.ResponseWriter, r *http.Request, c Change, do func() (any, error)) {
	c.By = d.who(r)
	if !d.IsPrivate {
		c.From = r.RemoteAddr
	}
	entry, err := d.Audit.begin(c)
	if err != nil {
		refuse(w, r, http.StatusServiceUnavailable, "the audit log cannot be written, and without it nothing is changed")
		return
	}
	answer, err := do()
	d.Audit.end(entry, err)
	switch {
	case errors.Is(err, bans.ErrFull):
		refuse(w, r, http.StatusConflict, err.Error())
	case err != nil:
		undecided(w, r, err)
	default:
		write(w, answer)
	}
}

// undecided answers where the store did not. What it had to say is not for callers.
func undecided(w http.ResponseWriter, r *http.Request, err error) {
	detail := "the store could not be asked: a change may have been made, or a part of it"
	if errors.Is(err, errors.ErrUnsupported) {
		detail = "the store cannot list charges"
	}
	refuse(w, r, http.StatusServiceUnavailable, detail)
}
