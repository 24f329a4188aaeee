package verdict_test

import (
	"context"
	"os"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/verdict"
	"github.com/slidegate/slidegate/memstore"
)

func ExampleAppend() {
	clock := memstore.WithClock(func() time.Time { return time.UnixMilli(1000) })
	limiter := slidegate.MustNew(memstore.New(clock), slidegate.PerMinute(3))
	d, _ := limiter.Take(context.Background(), "a")
	r := verdict.Request{Time: d.At().UnixMilli(), Op: "take", Key: d.Key(), Cost: d.Cost}
	os.Stdout.Write(verdict.Append(nil, &r, &d))
	// Output:
	// {"t":1000,"op":"take","key":"a","cost":1,"allowed":true,"remaining":2,"reset_ms":60000,"retry_ms":0,"binding":"3/1m","limits":[{"name":"3/1m","quota":3,"remaining":2,"reset_ms":60000,"retry_ms":0}]}
}
