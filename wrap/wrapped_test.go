package wrap_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/wrap"
)

// inFront returns every store of the package, in front of another one.
func inFront(store slidegate.Store) map[string]slidegate.JointStore {
	return map[string]slidegate.JointStore{
		"Circuit":  wrap.Circuit(store),
		"Deadline": wrap.Deadline(store, time.Second),
		"Denials":  wrap.Denials(store),
		"Fallback": wrap.Fallback(store, memstore.New()),
		"Observe":  wrap.Observe(store, func(wrap.Event) {}),
		"Shadow":   wrap.Shadow(store, nil),
	}
}

// TestWhatAStoreCannotBuildIsNotBuiltInFrontOfIt, over one key or over several, and in front of none nothing is.
func TestWhatAStoreCannotBuildIsNotBuiltInFrontOfIt(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerHour(1)}
	unable := errors.New("unable")
	for name, store := range inFront(&flawed{Store: memstore.New(), bind: unable}) {
		if _, err := slidegate.New(store, limits...); !errors.Is(err, unable) {
			t.Errorf("%s: %v, want %v", name, err, unable)
		}
		if _, err := store.BindJoint([][]slidegate.Limit{limits}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s, over several keys: %v, want %v", name, err, errors.ErrUnsupported)
		}
	}
	for name, store := range inFront(nil) {
		if _, err := slidegate.New(store, limits...); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("%s of nil: %v", name, err)
		}
		if _, err := store.BindJoint([][]slidegate.Limit{limits}); !errors.Is(err, slidegate.ErrInvalidLimit) {
			t.Errorf("%s of nil, over several keys: %v", name, err)
		}
	}
}
