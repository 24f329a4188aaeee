package bans

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

func init() { logging.Disable() } // the tests wait for a server that is not there yet

// startRedis starts a real one on a free port, which ends with the test, or before by kill.
func startRedis(t *testing.T) (client *redis.Client, kill func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		_ = client.Close()
		kill()
	})
	await(t, "the Redis", func() bool { return client.Ping(t.Context()).Err() == nil })
	return client, kill
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func sharedList(client *redis.Client) *List {
	return NewList(NewShared(goredis.New(client), "slidegate", 10*time.Second))
}

// TestProcessesShareTheirBans: what several ban at the same time is all there, others see it, its end too, and nothing
// is left when nobody is banned.
func TestProcessesShareTheirBans(t *testing.T) {
	client, kill := startRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lists := []*List{sharedList(client), sharedList(client), sharedList(client)}
	go lists[2].Follow(ctx, 5*time.Millisecond)
	var want []string
	var all sync.WaitGroup
	for i, list := range lists[:2] {
		for n := range 20 {
			key := fmt.Sprintf("ip:%d:%d\x00é\xff", i, n)
			want = append(want, strings.ToValidUTF8(key, "\ufffd"))
			all.Go(func() { list.mustAdd(t, strings.ToValidUTF8(key, "\ufffd"), time.Hour) })
		}
	}
	all.Wait()
	slices.Sort(want)
	await(t, "all bans, at the third", func() bool { return slices.Equal(keysOf(lists[2]), want) })
	if life := client.PTTL(ctx, "slidegate:bans").Val(); life <= 50*time.Minute || life > time.Hour {
		t.Errorf("the list lives %s", life)
	}
	for _, key := range want {
		if there, err := lists[0].Remove(ctx, key); !there || err != nil {
			t.Fatalf("removed %v, %v", there, err)
		}
	}
	await(t, "no ban, at the third", func() bool { return lists[2].Len() == 0 })
	if n := client.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys are left in Redis", n)
	}
	lists[1].mustAdd(t, "last", time.Hour)
	await(t, "the last ban, at the third", func() bool { return lists[2].Len() == 1 })
	kill()
	if _, err := lists[1].Add(ctx, "other", time.Hour, ""); !errors.Is(err, slidegate.ErrUnavailable) || lists[1].Len() != 1 {
		t.Errorf("without Redis: %v, %v", err, keysOf(lists[1]))
	}
	await(t, "failures", func() bool { return lists[2].Failures() > 0 })
	if !slices.Equal(keysOf(lists[2]), []string{"last"}) {
		t.Errorf("without Redis the third has %v", keysOf(lists[2]))
	}
}

// TestAListThatIsNone is an error, and the bans that are known hold.
func TestAListThatIsNone(t *testing.T) {
	client, _ := startRedis(t)
	list := sharedList(client)
	list.mustAdd(t, "k", time.Hour)
	for _, value := range []string{"\x00\x00\x00\x00\x00\x01not JSON", "\x00\x00\x00\x00\x00\x02{}", "\x00\x00\x00\x00\x00\x03"} {
		client.Set(t.Context(), "slidegate:bans", value, 0)
		if _, err := list.Add(t.Context(), "other", time.Hour, ""); !errors.Is(err, slidegate.ErrUnavailable) || list.Len() != 1 {
			t.Errorf("%q: %v, %v", value, err, keysOf(list))
		}
	}
	client.Del(t.Context(), "slidegate:bans")
	client.LPush(t.Context(), "slidegate:bans", "x")
	if _, err := list.Add(t.Context(), "other", time.Hour, ""); !errors.Is(err, slidegate.ErrUnavailable) {
		t.Errorf("a list: %v", err)
	}
}
