package memstore

import (
	"context"

	"github.com/slidegate/slidegate"
)

var _ slidegate.ChargesPlan = (*plan)(nil)

// Charges implements [slidegate.ChargesPlan].
func (p *plan) Charges(_ context.Context, key string, most int) ([][]slidegate.Charge, error) {
	pr := p.store.print(key)
	sh := p.store.shard(pr)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p.store.closed.Load() {
		return nil, errClosed
	}
	now, i := p.store.now(), sh.find(pr)
	all := make([][]slidegate.Charge, len(p.limits))
	for j := range p.limits {
		l := &p.limits[j]
		st := sh.state(i, l)
		if st == nil || most < 1 {
			continue
		}
		list := sh.logCharges
		if l.counter {
			list = sh.counterCharges
		}
		all[j] = list(st, l, now, most)
	}
	return all, nil
}

func (sh *shard) counterCharges(st *state, l *limit, now int64, most int) (all []slidegate.Charge) {
	c := sh.load(st).Roll(now, l.span)
	for _, w := range []slidegate.Charge{{At: c.Start - l.span, Units: c.Prev}, {At: c.Start, Units: c.Cur}} {
		if w.Units > 0 && len(all) < most {
			all = append(all, w)
		}
	}
	return all
}

// logCharges goes through the entries of a log of any of its forms.
func (sh *shard) logCharges(st *state, l *limit, now int64, most int) (all []slidegate.Charge) {
	r, live := sh.readLog(st, l, now, 0)
	switch {
	case r.Units == 0:
		return nil
	case st.word&(spilled|packedBit) == packedBit:
		f := st.few()
		return f.charges(live, most, st.at())
	case st.word&spilled == 0:
		return []slidegate.Charge{{At: r.At, Units: r.Units}}
	case st.word&fewBit != 0:
		return sh.fews.at(st.word).charges(live, most, st.at())
	}
	log := sh.rings.at(st.word)
	for i := live; i < int(log.n) && len(all) < most; i++ {
		all = append(all, slidegate.Charge{At: log.time(i, st.at()), Units: log.upTo(i+1) - log.upTo(i)})
	}
	return all
}

// charges returns the units from live on, those of one time together.
func (f *few) charges(live, most int, newest int64) (all []slidegate.Charge) {
	for i := live; i < f.len(); i++ {
		at, n := f.time(i, newest), len(all)
		switch {
		case n > 0 && all[n-1].At == at:
			all[n-1].Units++
		case n == most:
			return all
		default:
			all = append(all, slidegate.Charge{At: at, Units: 1})
		}
	}
	return all
}
