package slidegate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/gatetest"
	"github.com/slidegate/slidegate/memstore"
)

// TestChargesThatCannotBeListed: for an empty key, by a store that has no list, and by one that is closed.
func TestChargesThatCannotBeListed(t *testing.T) {
	closed := memstore.New()
	closed.Close()
	for name, c := range map[string]struct {
		store slidegate.Store
		key   string
		want  error
	}{
		"an empty key":           {memstore.New(), "", slidegate.ErrInvalidKey},
		"a store without lists":  {gatetest.NewOracle(gatetest.NewClock(time.UnixMilli(0))), "k", errors.ErrUnsupported},
		"a store that is closed": {closed, "k", slidegate.ErrUnavailable},
		"a key nobody has seen":  {memstore.New(), "k", nil},
	} {
		l := slidegate.MustNew(c.store, slidegate.PerMinute(1))
		if all, err := l.Charges(context.Background(), c.key, -1); !errors.Is(err, c.want) || err == nil && (len(all) != 1 || len(all[0]) != 0) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	if all, err := slidegate.Unlimited().Charges(context.Background(), "k", 1); all != nil || err != nil {
		t.Errorf("unlimited: %v, %v", all, err)
	}
}

// A lister notes how many charges it was asked for.
type lister struct {
	slidegate.Store
	slidegate.Plan
	most []int
}

func (s *lister) Bind([]slidegate.Limit) (slidegate.Plan, error) { return s, nil }

func (s *lister) Charges(_ context.Context, _ string, most int) ([][]slidegate.Charge, error) {
	s.most = append(s.most, most)
	return nil, nil
}

// TestNoStoreIsAskedForLessThanNoCharges.
func TestNoStoreIsAskedForLessThanNoCharges(t *testing.T) {
	store := &lister{}
	l := slidegate.MustNew(store, slidegate.PerMinute(1))
	for _, most := range []int{-7, -1, 0, 1, 9} {
		if _, err := l.Charges(context.Background(), "k", most); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{0, 0, 0, 1, 9}; !slices.Equal(store.most, want) {
		t.Errorf("the store was asked for %v, want %v", store.most, want)
	}
}
