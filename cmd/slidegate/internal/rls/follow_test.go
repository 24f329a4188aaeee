package rls_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/memstore"
)

// TestFollowing loads a change when it is there at two looks in a row, so that one that is being written is not looked at as
// if it were all, and tries what is wrong once.
func TestFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		m := rls.NewMetrics(rls.OurNames)
		service, err := rls.New(store, nil, rls.Options{Metrics: m, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		const whole = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 1}\n"
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(whole), 0o644), service.Load(dir)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		now := make(chan os.Signal)
		go service.Follow(ctx, dir, time.Second, now)
		<-time.After(time.Second / 2) // between two looks from now on
		for i, c := range []struct {
			file, text, want string // a text of "-" removes the file, and none leaves all as it is
		}{
			{want: "1 loaded, 0 not"},
			{"b.yaml", "domain: e\ndescriptors:\n  - key: b\n    rate_limit: {unit: min", "1 loaded, 0 not"}, // half of it
			{"b.yaml", "domain: e\n", "1 loaded, 0 not"},
			{want: "2 loaded, 0 not"},
			{want: "2 loaded, 0 not"},
			{"b.yaml", "domain: d\n", "2 loaded, 0 not"}, // which a.yaml has
			{want: "2 loaded, 1 not"},
			{want: "2 loaded, 1 not"},
			{"b.yaml", "-", "2 loaded, 1 not"},
			{want: "3 loaded, 1 not"},
			{"a.yaml", "-", "3 loaded, 1 not"},
			{want: "3 loaded, 2 not"}, // no file at all
			{"a.yaml", whole, "3 loaded, 2 not"},
			{want: "4 loaded, 2 not"},
		} {
			switch {
			case c.text == "-":
				err = os.Remove(filepath.Join(dir, c.file))
			case c.file != "":
				err = os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			synctest.Wait()
			v := values(t, m)
			if got := fmt.Sprintf("%v loaded, %v not", v["slidegate_rls_config_loads_total{success}"], v["slidegate_rls_config_loads_total{error}"]); got != c.want {
				t.Errorf("step %d: %s, want %s", i, got, c.want)
			}
		}
		now <- os.Interrupt // whatever it is
		synctest.Wait()
		if n := values(t, m)["slidegate_rls_config_loads_total{success}"]; n != 5 || service.Rules() == nil {
			t.Errorf("%v loaded after a signal", n)
		}
		cancel()
		synctest.Wait()
	})
}
