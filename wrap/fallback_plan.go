package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// Bind implements [slidegate.Store]. The plan is a [slidegate.QuickPlan].
func (f *FallbackStore) Bind(limits []slidegate.Limit) (slidegate.Plan, error) {
	if f.invalid != nil {
		return nil, f.invalid
	}
	next, err := f.primary.Bind(limits)
	if err != nil {
		return nil, err
	}
	bind := func(parts [][]slidegate.Limit) (decider, error) {
		plan, err := f.backup.Bind(parts[0])
		return ofOneKey{plan}, err
	}
	pair, err := f.pair([][]slidegate.Limit{limits}, ofOneKey{next}, bind)
	if err != nil {
		return nil, err
	}
	return &fallbackPlan{pair, quick(next)}, nil
}

// BindJoint implements [slidegate.JointStore], where both stores do.
func (f *FallbackStore) BindJoint(parts [][]slidegate.Limit) (slidegate.JointPlan, error) {
	if f.invalid != nil {
		return nil, f.invalid
	}
	next, err := bindJoint(f.primary, parts)
	if err != nil {
		return nil, err
	}
	bind := func(parts [][]slidegate.Limit) (decider, error) { return bindJoint(f.backup, parts) }
	pair, err := f.pair(parts, next, bind)
	if err != nil {
		return nil, err
	}
	return &jointFallbackPlan{pair, next}, nil
}

// A decider decides over several keys, as a [slidegate.JointPlan] does.
type decider interface {
	Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error)
	Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error)
	Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error
}

// ofOneKey is a plan as a decider.
type ofOneKey struct{ slidegate.Plan }

func (p ofOneKey) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.Plan.Take(ctx, keys[0], cost)
}

func (p ofOneKey) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.Plan.Peek(ctx, keys[0], cost)
}

func (p ofOneKey) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	return p.Plan.Refund(ctx, keys[0], charged, cost)
}

// A fallbackPair decides over parts by the primary, or by the backup.
type fallbackPair struct {
	*FallbackStore
	parts   [][]slidegate.Limit
	limits  []slidegate.Limit // of all parts
	keyOf   []int             // the part of each limit
	single  []slidegate.Plan  // of each limit at the primary, to take over what is owed
	primary decider
	bind    func(parts [][]slidegate.Limit) (decider, error) // at the backup
	reserve atomic.Pointer[reserve]
}

// A reserve is the backup by a share.
type reserve struct {
	share
	decider
	quotas   []int64 // of the share
	smallest int64
}

func (f *FallbackStore) pair(parts [][]slidegate.Limit, primary decider, bind func([][]slidegate.Limit) (decider, error)) (*fallbackPair, error) {
	p := &fallbackPair{FallbackStore: f, parts: parts, primary: primary, bind: bind}
	for i, limits := range parts {
		for j := range limits {
			single, err := f.primary.Bind(limits[j : j+1])
			if err != nil {
				return nil, err
			}
			p.limits, p.keyOf, p.single = append(p.limits, limits[j]), append(p.keyOf, i), append(p.single, single)
		}
	}
	_, err := p.current()
	return p, err
}

// current returns the backup by the share that it has now. State is found by name, so another share keeps it.
func (p *fallbackPair) current() (*reserve, error) {
	s := p.share()
	if r := p.reserve.Load(); r != nil && r.share == s {
		return r, nil
	}
	r := &reserve{share: s, smallest: slidegate.MaxQuota}
	parts := make([][]slidegate.Limit, len(p.parts))
	for i, limits := range p.parts {
		parts[i] = slices.Clone(limits)
		for j := range parts[i] {
			quota := s.of(limits[j].Quota)
			parts[i][j].Quota = quota
			r.quotas, r.smallest = append(r.quotas, quota), min(r.smallest, quota)
		}
	}
	var err error
	if r.decider, err = p.bind(parts); err != nil {
		return nil, err
	}
	p.reserve.Store(r)
	return r, nil
}

// take decides by the primary when what is owed is taken over, or by the backup.
func (p *fallbackPair) take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	err := p.settle(ctx, keys)
	if err == nil {
		var a slidegate.Answer
		if a, err = p.primary.Take(ctx, keys, cost); err == nil {
			return a, nil
		}
	}
	if !isAway(ctx, err) {
		return slidegate.Answer{}, err
	}
	return p.takeBackup(ctx, keys, cost, err)
}

func (p *fallbackPair) takeBackup(ctx context.Context, keys []string, cost int64, cause error) (slidegate.Answer, error) {
	r, err := p.current()
	if err != nil {
		return slidegate.Answer{}, neither(cause, err)
	}
	if cost > r.smallest {
		return p.refuse(ctx, r, keys, cost, cause)
	}
	a, err := r.Take(ctx, keys, cost)
	if err != nil {
		return slidegate.Answer{}, neither(cause, err)
	}
	p.byBackup.Add(1)
	r.present(p.limits, &a)
	if a.Allowed && cost > 0 {
		for i := range p.limits {
			p.debts.add(keys[p.keyOf[i]], &p.limits[i], cost)
		}
		byBackup.put(p.limits, &a)
	}
	return a, nil
}

func neither(primary, backup error) error {
	return fmt.Errorf("wrap: neither store can be asked: %w; the backup: %w", primary, backup)
}

func (p *fallbackPair) peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	err := p.settle(ctx, keys)
	if err == nil {
		var a slidegate.Answer
		if a, err = p.primary.Peek(ctx, keys, cost); err == nil {
			return a, nil
		}
	}
	if !isAway(ctx, err) {
		return slidegate.Answer{}, err
	}
	r, wrong := p.current()
	if wrong != nil {
		return slidegate.Answer{}, neither(err, wrong)
	}
	if cost > r.smallest {
		return p.refuse(ctx, r, keys, cost, err)
	}
	a, wrong := r.Peek(ctx, keys, cost)
	if wrong != nil {
		return slidegate.Answer{}, neither(err, wrong)
	}
	r.present(p.limits, &a)
	return a, nil
}

// refuse answers a cost that the share can never hold. Nobody knows when the primary is back: a whole window is told.
func (p *fallbackPair) refuse(ctx context.Context, r *reserve, keys []string, cost int64, cause error) (slidegate.Answer, error) {
	a, err := r.Peek(ctx, keys, 0)
	if err != nil {
		return slidegate.Answer{}, neither(cause, err)
	}
	p.byBackup.Add(1)
	r.present(p.limits, &a)
	a.Allowed = false
	for i := range p.limits {
		if reading := &a.Readings[i]; p.limits[i].Algorithm == slidegate.SlidingLog && reading.Units+cost > p.limits[i].Quota {
			reading.Back = a.Now
		}
	}
	return a, nil
}

// present makes of readings by the share readings by the whole quota: what the share does not have counts as used. So
// remaining units, and the waits of logs, are those of the share.
func (r *reserve) present(limits []slidegate.Limit, a *slidegate.Answer) {
	for i := range limits {
		reading, withheld := &a.Readings[i], limits[i].Quota-r.quotas[i]
		if withheld > 0 && reading.Units == 0 && limits[i].Algorithm == slidegate.SlidingLog {
			reading.At = a.Now - limits[i].Window.Milliseconds() // the share is full: there is nothing to wait for
		}
		reading.Units += withheld
	}
}

// settle charges to the primary what the backup has admitted for the keys, as far as it fits and still counts. It fails
// if the primary cannot be asked, and has charged nothing then.
func (p *fallbackPair) settle(ctx context.Context, keys []string) error {
	if !p.owe(keys) {
		return nil
	}
	// A look first: to charge a store that does not answer might charge it again and again.
	if _, err := p.primary.Peek(ctx, keys, 0); err != nil {
		return err
	}
	r, err := p.current()
	if err != nil {
		return err
	}
	counts, err := r.Peek(ctx, keys, 0)
	if err != nil {
		return nil // the backup has forgotten them, or will when it is asked again
	}
	for i := range p.limits {
		l, key := &p.limits[i], keys[p.keyOf[i]]
		units := min(p.debts.take(key, l), used(l, counts.Now, counts.Readings[i]), l.Quota)
		p.takeOver(ctx, i, key, units)
	}
	return nil
}

func (p *fallbackPair) owe(keys []string) bool {
	for i := range p.limits {
		if p.debts.owes(keys[p.keyOf[i]], &p.limits[i]) {
			return true
		}
	}
	return false
}

// takeOver charges units of one limit, or as many as there is room for. If that fails they are owed as before.
func (p *fallbackPair) takeOver(ctx context.Context, i int, key string, units int64) {
	for units > 0 {
		a, err := p.single[i].Take(ctx, key, units)
		if err != nil {
			p.debts.add(key, &p.limits[i], units)
			return
		}
		if a.Allowed {
			p.takenOver.Add(uint64(units))
			return
		}
		units = min(units-1, p.limits[i].Quota-used(&p.limits[i], a.Now, a.Readings[0]))
	}
}

// refund gives back where the charge was made, and what came back to the backup is owed no more. Nothing comes back of
// what has left its window or was forgotten by a reset, and what is owed since is none the less for it.
func (p *fallbackPair) refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	if !byBackup.on(p.limits, &charged) {
		return p.primary.Refund(ctx, keys, charged, cost)
	}
	r, err := p.current()
	if err != nil {
		return err
	}
	before, err := r.Peek(ctx, keys, 0)
	if err != nil {
		return err
	}
	if err := r.Refund(ctx, keys, charged, cost); err != nil {
		return err
	}
	after, err := r.Peek(ctx, keys, 0)
	if err != nil {
		return nil // it is given back, and owed all the same: rather too much than too little
	}
	for i := range p.limits {
		// Others may charge or give back between the looks.
		l := &p.limits[i]
		back := recorded(l, before.Readings[i]) - recorded(l, after.Readings[i])
		p.debts.add(keys[p.keyOf[i]], l, -min(max(back, 0), cost))
	}
	return nil
}

// recorded returns the units of a reading whatever they weigh: of a counter those of both windows.
func recorded(l *slidegate.Limit, r slidegate.Reading) int64 {
	if l.Algorithm == slidegate.SlidingCounter {
		return r.Back + r.Units
	}
	return r.Units
}

// A fallbackPlan is a pair over one key. It asks the primary at once where nothing is owed.
type fallbackPlan struct {
	pair *fallbackPair
	next slidegate.QuickPlan
}

func (p *fallbackPlan) owes(key string) bool {
	for i := range p.pair.limits {
		if p.pair.debts.owes(key, &p.pair.limits[i]) {
			return true
		}
	}
	return false
}

func (p *fallbackPlan) Take(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	if p.owes(key) {
		return p.pair.take(ctx, []string{key}, cost)
	}
	a, err := p.next.Take(ctx, key, cost)
	if isAway(ctx, err) {
		return p.pair.takeBackup(ctx, []string{key}, cost, err)
	}
	return a, err
}

func (p *fallbackPlan) Peek(ctx context.Context, key string, cost int64) (slidegate.Answer, error) {
	return p.pair.peek(ctx, []string{key}, cost)
}

func (p *fallbackPlan) Refund(ctx context.Context, key string, charged slidegate.Answer, cost int64) error {
	return p.pair.refund(ctx, []string{key}, charged, cost)
}

// Reset forgets the key in both stores, and what it owes.
func (p *fallbackPlan) Reset(ctx context.Context, key string) error {
	r, err := p.pair.current()
	if err == nil {
		err = r.decider.(ofOneKey).Reset(ctx, key)
	}
	for i := range p.pair.limits {
		p.pair.debts.take(key, &p.pair.limits[i])
	}
	return errors.Join(p.next.Reset(ctx, key), err)
}

// Allow implements [slidegate.QuickPlan].
func (p *fallbackPlan) Allow(ctx context.Context, key string, cost int64) (bool, error) {
	if p.owes(key) {
		a, err := p.Take(ctx, key, cost)
		return a.Allowed, err
	}
	allowed, err := p.next.Allow(ctx, key, cost)
	if isAway(ctx, err) {
		a, err := p.pair.takeBackup(ctx, []string{key}, cost, err)
		return a.Allowed, err
	}
	return allowed, err
}

// TakeOne implements [slidegate.QuickPlan].
func (p *fallbackPlan) TakeOne(ctx context.Context, key string, cost int64) (allowed bool, now int64, r slidegate.Reading, err error) {
	var a slidegate.Answer
	if p.owes(key) {
		a, err = p.Take(ctx, key, cost)
		return a.Allowed, a.Now, a.Readings[0], err
	}
	allowed, now, r, err = p.next.TakeOne(ctx, key, cost)
	if isAway(ctx, err) {
		a, err = p.pair.takeBackup(ctx, []string{key}, cost, err)
		return a.Allowed, a.Now, a.Readings[0], err
	}
	return allowed, now, r, err
}

// A jointFallbackPlan is a pair over several keys.
type jointFallbackPlan struct {
	pair *fallbackPair
	next slidegate.JointPlan
}

// Joint tells what both stores say: whichever decides, it is the same act.
func (p *jointFallbackPlan) Joint(keys []string) bool {
	r, err := p.pair.current()
	return err == nil && p.next.Joint(keys) && r.decider.(slidegate.JointPlan).Joint(keys)
}

func (p *jointFallbackPlan) Take(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.pair.take(ctx, keys, cost)
}

func (p *jointFallbackPlan) Peek(ctx context.Context, keys []string, cost int64) (slidegate.Answer, error) {
	return p.pair.peek(ctx, keys, cost)
}

func (p *jointFallbackPlan) Refund(ctx context.Context, keys []string, charged slidegate.Answer, cost int64) error {
	return p.pair.refund(ctx, keys, charged, cost)
}
