package slidegate_test

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// A login is held to what its address, its account and everybody may.
func ExampleGroup() {
	store := memstore.New()
	login := slidegate.MustNewGroup(
		slidegate.MustNew(store, slidegate.PerMinute(10).Named("address")),
		slidegate.MustNew(store, slidegate.PerHour(2).Named("account")),
		slidegate.MustNew(store, slidegate.PerMinute(1000).Named("everybody")),
	)
	ctx := context.Background()
	for _, account := range []string{"ann", "ann", "ann", "bob"} {
		d, _ := login.Take(ctx, "ip:203.0.113.7", "account:"+account, "everybody")
		fmt.Println(account, d.Allowed, d.State(0).Remaining, d.State(1).Remaining, d.State(2).Remaining)
	}
	// Output:
	// ann true 9 1 999
	// ann true 8 0 998
	// ann false 8 0 998
	// bob true 7 1 997
}

// A login that succeeds gives back what it was charged, so only failures count.
func ExampleGroup_Refund() {
	store := memstore.New()
	login := slidegate.MustNewGroup(
		slidegate.MustNew(store, slidegate.PerMinute(10).Named("address")),
		slidegate.MustNew(store, slidegate.PerHour(2).Named("account")),
	)
	ctx := context.Background()
	d, _ := login.Take(ctx, "ip:203.0.113.7", "account:ann")
	fmt.Println(d.State(0).Remaining, d.State(1).Remaining)
	_ = login.Refund(ctx, &d)
	d, _ = login.Peek(ctx, "ip:203.0.113.7", "account:ann")
	fmt.Println(d.State(0).Remaining, d.State(1).Remaining)
	// Output:
	// 9 1
	// 10 2
}

func ExampleGroup_Atomic() {
	store := memstore.New()
	together := slidegate.MustNewGroup(
		slidegate.MustNew(store, slidegate.PerMinute(10).Named("address")),
		slidegate.MustNew(store, slidegate.PerHour(2).Named("account")),
	)
	apart := slidegate.MustNewGroup(
		slidegate.MustNew(memstore.New(), slidegate.PerMinute(10).Named("address")),
		slidegate.MustNew(memstore.New(), slidegate.PerHour(2).Named("account")),
	)
	fmt.Println(together.Atomic("ip:203.0.113.7", "account:ann"), apart.Atomic("ip:203.0.113.7", "account:ann"))
	// Output: true false
}
