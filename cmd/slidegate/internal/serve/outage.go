package serve

import (
	"sync/atomic"
	"time"
)

// An outage is over when there was an answer and nothing failed for a while, so that an upstream that
// fails now and then is told of once. It is safe for concurrent use.
type outage struct {
	on   atomic.Bool
	last atomic.Int64 // failure, in Unix nanoseconds
}

// calm is how long nothing must fail before an outage is over.
const calm = 10 * time.Second

// failed notes a failure and tells whether it is the first of an outage.
func (o *outage) failed() bool {
	o.last.Store(time.Now().UnixNano())
	return !o.on.Load() && !o.on.Swap(true)
}

// recovered notes an answer and tells whether it ends an outage.
func (o *outage) recovered() bool {
	return o.on.Load() && time.Now().UnixNano()-o.last.Load() >= int64(calm) && o.on.Swap(false)
}
