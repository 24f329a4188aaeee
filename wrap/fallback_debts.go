package wrap

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// maxDebts is the number of debts that are kept: about ten megabytes.
const maxDebts = 65_536

// Debts are units that a backup admitted and that the primary has not been told of.
type debts struct {
	seeds  [2]maphash.Seed
	n      atomic.Int64
	shards [64]debtShard
}

type debtShard struct {
	mu   sync.Mutex
	owed map[debt]int64
}

// A debt is of one limit of one key.
type debt struct {
	print     print
	name      string
	window    time.Duration
	algorithm slidegate.Algorithm
}

func newDebts() *debts {
	d := &debts{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range d.shards {
		d.shards[i].owed = map[debt]int64{}
	}
	return d
}

func (d *debts) find(key string, l *slidegate.Limit) (debt, *debtShard) {
	p := print{maphash.String(d.seeds[0], key), maphash.String(d.seeds[1], key)}
	return debt{p, l.Name, l.Window, l.Algorithm}, &d.shards[p.high%uint64(len(d.shards))]
}

// owes tells whether a key owes units of a limit.
func (d *debts) owes(key string, l *slidegate.Limit) bool {
	if d.n.Load() == 0 {
		return false
	}
	of, sh := d.find(key, l)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.owed[of] > 0
}

// add changes a debt by so many units, and to none at least. Where there is no room for a new one another is forgotten.
func (d *debts) add(key string, l *slidegate.Limit, units int64) {
	of, sh := d.find(key, l)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	before, isOld := sh.owed[of]
	switch after := before + units; {
	case after <= 0:
		d.remove(sh, of)
	case isOld || len(sh.owed) < maxDebts/len(d.shards):
		sh.owed[of] = after
		if !isOld {
			d.n.Add(1)
		}
	default:
		for another := range sh.owed {
			delete(sh.owed, another)
			break
		}
		sh.owed[of] = after
	}
}

// take returns a debt and forgets it: nobody else will be told of it.
func (d *debts) take(key string, l *slidegate.Limit) int64 {
	of, sh := d.find(key, l)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	units := sh.owed[of]
	d.remove(sh, of)
	return units
}

// remove forgets a debt, under the shard's lock.
func (d *debts) remove(sh *debtShard, of debt) {
	if _, ok := sh.owed[of]; ok {
		delete(sh.owed, of)
		d.n.Add(-1)
	}
}
