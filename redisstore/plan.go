package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
)

// A plan decides over the limits it was bound to. Each verb has its own batcher.
type plan struct {
	store  *Store
	limits []slidegate.Limit
	names  naming
	args   []string // four for each limit, see limitArgs

	takes, peeks, refunds, resets, charges *batcher
}

var _ slidegate.Plan = (*plan)(nil)

func newPlan(s *Store, limits []slidegate.Limit) *plan {
	p := &plan{store: s, limits: limits, names: newNaming(s.prefix, limits), args: limitArgs(limits)}
	p.takes, p.peeks = newDecider(s, "t", limits), newDecider(s, "p", limits)
	p.refunds = newBatcher(s, refundScript, []string{""}, 0, 0, 1)
	p.resets = newBatcher(s, resetScript, []string{""}, 0, 0, 1)
	p.charges = newBatcher(s, chargesScript, []string{""}, 0, anyNumber, 1)
	return p
}

// newDecider returns a batcher of the script that decides. Its arguments are few, since Redis makes an object and a string of
// each: what is asked, in a letter and one for each limit; quotas and windows; the clock, if it is ours; resolutions, of those
// logs that have one; and costs, unless all are 1.
func newDecider(s *Store, verb string, limits []slidegate.Limit) *batcher {
	var bounds, resolutions []string
	for _, l := range limits {
		bounds = append(bounds, decimal(l.Quota), decimal(l.Window.Milliseconds()))
		switch {
		case l.Algorithm == slidegate.SlidingCounter:
			verb += "c"
		case l.Resolution.Milliseconds() > 1:
			verb += "r"
			resolutions = append(resolutions, decimal(l.Resolution.Milliseconds()))
		default:
			verb += "l"
		}
	}
	clock, head := noClock, append([]string{verb}, bounds...)
	if s.clock != nil {
		clock, head = len(head), append(head, "")
		head[0] = strings.ToUpper(verb[:1]) + verb[1:]
	}
	b := newBatcher(s, takeScript, append(head, resolutions...), clock, len(limits), s.folding)
	b.usual = "1"
	return b
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// argsPerLimit is the number of arguments by which a refund knows a limit.
const argsPerLimit = 4

// limitArgs returns what a refund has to know of limits: algorithm, quota, window and resolution in
// milliseconds, as text.
func limitArgs(limits []slidegate.Limit) (args []string) {
	for _, l := range limits {
		algorithm := "l"
		if l.Algorithm == slidegate.SlidingCounter {
			algorithm = "c"
		}
		args = append(args, algorithm,
			decimal(l.Quota),
			decimal(l.Window.Milliseconds()),
			decimal(max(1, l.Resolution.Milliseconds())))
	}
	return args
}

// Take implements [slidegate.Plan].
func (p *plan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.take(ctx, p.call(p.takes, key), cost)
}

func (p *plan) take(ctx context.Context, c *call, cost int64) (answer slidegate.Answer, err error) {
	c.args = append(c.args, decimal(cost))
	now, reply, err := p.takes.ask(ctx, c)
	if err != nil {
		return answer, err
	}
	replaced, err := p.decode(now, reply, &answer)
	if replaced > 0 && answer.Allowed && cost > 0 {
		p.store.replaced(replaced)
	}
	return answer, err
}

// Peek implements [slidegate.Plan].
func (p *plan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.peek(ctx, p.call(p.peeks, key), cost)
}

func (p *plan) peek(ctx context.Context, c *call, cost int64) (answer slidegate.Answer, err error) {
	c.args = append(c.args, decimal(cost))
	now, reply, err := p.peeks.ask(ctx, c)
	if err == nil {
		_, err = p.decode(now, reply, &answer)
	}
	return answer, err
}

// Refund implements [slidegate.Plan].
func (p *plan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	return p.refund(ctx, p.call(p.refunds, key), charged, cost)
}

func (p *plan) refund(ctx context.Context, c *call, charged slidegate.Answer, cost int64) error {
	c.args = append(c.args, decimal(cost))
	for i := range p.limits {
		c.args = append(c.args, p.args[i*argsPerLimit:(i+1)*argsPerLimit]...)
		c.args = append(c.args, decimal(charged.Readings[i].At))
	}
	return p.act(ctx, p.refunds, c)
}

// Reset implements [slidegate.Plan].
func (p *plan) Reset(ctx context.Context, key string) error {
	return p.act(ctx, p.resets, p.call(p.resets, key))
}

// act asks for what has no answer but that it was done.
func (p *plan) act(ctx context.Context, b *batcher, c *call) error {
	_, reply, err := b.ask(ctx, c)
	if err == nil && reply[0] < 0 {
		return p.store.newer()
	}
	return err
}

// call returns a call with the keys of every limit.
func (p *plan) call(b *batcher, key string) *call {
	c := b.call()
	tag := escape(key)
	c.keys = p.names.keys(tag, c.keys)
	if p.store.clustered() {
		c.slot = hashSlot(tag)
	}
	return c
}

// The replies of the scripts, in integers. The script's clock comes first, then for each call its part. The first number
// of a part has a status below statuses, and statuses times the head of the first limit. The lowest bit of a status says
// that the request was admitted, the others count the values that were not understood. If that number is negative, nothing was
// done, for a value has a newer format, and nothing follows. A refund and a reset reply a status alone.
//
// The head of a limit has its units, and flags that say what of At and Back follows. Most often neither does.
const (
	statuses  = 64
	maxStatus = 1 + 2*slidegate.MaxLimits

	hasAt     = 1 // else it is now, or for a counter the start of the window that now is in
	hasBack   = 2 // else it is 0
	headFlags = 4
)

// partSize returns the length of the part of one call at the beginning of a reply; 0 if that can be none.
func partSize(reply []int64, limits int) (n int) {
	if len(reply) == 0 || reply[0] < -1 || reply[0]%statuses > maxStatus {
		return 0
	}
	if limits == anyNumber {
		return len(reply)
	}
	if limits == 0 || reply[0] < 0 {
		return 1
	}
	for i := range limits {
		if n >= len(reply) || reply[n] < 0 {
			return 0
		}
		head := reply[n]
		if i == 0 {
			head /= statuses
		}
		n += 1 + int(head&hasAt+head&hasBack/hasBack)
	}
	if n > len(reply) {
		return 0
	}
	return n
}

// decode reads the answer of one decision, and how many values were not understood.
func (p *plan) decode(now int64, reply []int64, answer *slidegate.Answer) (strange int64, err error) {
	status := reply[0] % statuses
	if status < 0 {
		return 0, p.store.newer()
	}
	answer.Allowed, answer.Now = status&1 == 1, now
	head, rest := reply[0]/statuses, reply[1:]
	for i := range p.limits {
		if i > 0 {
			head, rest = rest[0], rest[1:]
		}
		r := &answer.Readings[i]
		r.Units, r.At = head/headFlags, p.usualAt(i, now)
		if head&hasAt != 0 {
			r.At, rest = rest[0], rest[1:]
		}
		if head&hasBack != 0 {
			r.Back, rest = rest[0], rest[1:]
		}
	}
	return status >> 1, nil
}

// usualAt returns the At of a reading that a reply leaves out.
func (p *plan) usualAt(limit int, now int64) int64 {
	if p.limits[limit].Algorithm != slidegate.SlidingCounter {
		return now
	}
	window := p.limits[limit].Window.Milliseconds()
	return now - ((now%window)+window)%window
}
