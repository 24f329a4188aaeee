package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/httpgate"
)

// Kept is how many refusals are kept, and how many bans of rules: the newest. With keys of the greatest length they take
// about two megabytes.
const Kept = 1000

// Why a request was refused.
const (
	byLimit   = "limit"
	byBan     = "ban"
	byCost    = "cost"       // it can never fit
	byRule    = "blocked"    // a rule or a plan that refuses all
	byList    = "denied"     // the list of those denied, which counts nobody
	noAddress = "no-address" // nobody to count it under
)

// A Refusal is a request that was refused, or would have been where it was in shadow.
type Refusal struct {
	Time    int64  `json:"t"` // in milliseconds since the Unix epoch
	Reason  string `json:"reason"`
	Key     string `json:"key,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Limit   string `json:"limit,omitempty"` // that binds
	Cost    int64  `json:"cost,omitempty"`
	RetryMS int64  `json:"retry_ms,omitempty"`
	Shadow  bool   `json:"shadow,omitempty"` // it passed
}

// Refusals keeps those that came last. It is safe for concurrent use; the zero value, and nil, keep nothing.
type Refusals struct {
	list *bans.List

	mu    sync.Mutex
	ring  []kept
	next  int
	total uint64
	began []Ban // of rules
}

// A kept refusal has its key in bytes of its own, which are used again: a flood of refusals makes no garbage, and holds
// on to nothing else of a request.
type kept struct {
	Refusal
	key []byte
}

// NewRefusals returns one that keeps [Kept]. The list tells which keys people have banned.
func NewRefusals(list *bans.List) *Refusals { return &Refusals{list: list, ring: make([]kept, Kept)} }

// Note keeps a request if it was refused. The rule may be empty; blocked says that it refuses all.
func (r *Refusals) Note(e *httpgate.Event, rule string, blocked bool) {
	if r == nil || len(r.ring) == 0 || e.After {
		return
	}
	reason := r.reason(e, blocked)
	if reason == "" {
		return
	}
	n := Refusal{Time: time.Now().UnixMilli(), Reason: reason, Rule: rule, Shadow: e.Shadow}
	if d := e.Decision; d != nil {
		n.Cost, n.RetryMS = d.Cost, d.RetryAfter().Milliseconds()
		n.Limit = d.Binding().Limit.Name
	}
	r.keep(n, e)
}

func (r *Refusals) reason(e *httpgate.Event, blocked bool) string {
	switch {
	case errors.Is(e.Err, httpgate.ErrForbidden):
		return byList
	case errors.Is(e.Err, httpgate.ErrNoAddress):
		return noAddress
	case e.Decision == nil || e.Decision.Allowed:
		return ""
	case e.Banned, r.isBanned(e):
		return byBan
	case blocked:
		return byRule
	case e.Decision.Len() == 0:
		return byCost
	}
	return byLimit
}

// isBanned tells of a request that has a key which people have banned.
func (r *Refusals) isBanned(e *httpgate.Event) bool {
	for i := range e.Decision.Len() {
		if !r.list.Banned(e.Decision.KeyOf(i)).IsZero() {
			return true
		}
	}
	return false
}

func (r *Refusals) keep(n Refusal, e *httpgate.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := &r.ring[r.next]
	slot.Refusal, slot.key = n, append(slot.key[:0], e.Key...)
	r.next = (r.next + 1) % len(r.ring)
	r.total++
	if e.BanBegan == 0 {
		return
	}
	if len(r.began) == Kept {
		r.began = slices.Delete(r.began, 0, 1)
	}
	until := n.Time + e.BanBegan.Milliseconds()
	r.began = append(r.began, Ban{Key: strings.Clone(e.Key), By: n.Rule, Since: n.Time, Until: until, Reason: n.Limit})
}

// All returns what is kept, the newest first, and how many there were since the start.
func (r *Refusals) All() (all []Refusal, total uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ring {
		k := &r.ring[(r.next-1-i+2*len(r.ring))%len(r.ring)]
		if k.Time == 0 {
			break
		}
		one := k.Refusal
		one.Key = string(k.key)
		all = append(all, one)
	}
	return all, r.total
}

// bans returns the bans of rules that began in this process and are not over.
func (r *Refusals) bans() []Ban {
	now := time.Now().UnixMilli()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = slices.DeleteFunc(r.began, func(b Ban) bool { return b.Until <= now })
	all := slices.Clone(r.began)
	for i := range all {
		all[i].RetryMS = all[i].Until - now
	}
	return all
}

// unban forgets the bans of a key, and tells whether there was one.
func (r *Refusals) unban(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.began)
	r.began = slices.DeleteFunc(r.began, func(b Ban) bool { return b.Key == key })
	return len(r.began) < before
}

// Recent are the refusals that are kept.
type Recent struct {
	Total    uint64    `json:"total"` // since the start
	Refusals []Refusal `json:"refusals"`
}

func (d *door) serveRefusals(w http.ResponseWriter, _ *http.Request) {
	all, total := d.Refusals.All()
	write(w, Recent{total, append([]Refusal{}, all...)})
}
