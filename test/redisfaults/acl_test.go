package redisfaults_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/wrap"
)

// commands are all that a user of the store needs, beside the keys ~slidegate:*. What clients
// send when they connect is allowed to everybody, or is not missed.
var commands = []string{"evalsha", "eval", "time", "getrange", "psetex", "setrange", "strlen", "pexpire", "del"}

// TestTheSmallestRulesAreEnough, and each of them is needed.
func TestTheSmallestRulesAreEnough(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		for _, without := range append([]string{""}, commands...) {
			rules := []string{"~slidegate:*"}
			for _, c := range commands {
				if c != without {
					rules = append(rules, "+"+c)
				}
			}
			server.User("limits", "secret", rules...)
			server.Do("FLUSHALL")
			server.Do("SCRIPT", "FLUSH")
			as := to(server)
			as.user, as.password = "limits", "secret"
			err := everything(redisstore.New(connect(t, as), redisstore.WithTimeout(generous)))
			switch {
			case without == "" && err != nil:
				t.Errorf("with %s: %v", strings.Join(rules, " "), err)
			case without != "" && err == nil:
				t.Errorf("%s is not needed", without)
			case without != "" && (!errors.Is(err, slidegate.ErrUnavailable) || !mentions(err, "NOPERM", "can't run this command", "no permissions")):
				t.Errorf("without %s: %v", without, err)
			}
		}
	})
}

// clusterCommands are what a user needs beside in front of a cluster: clients ask who has what, one way
// or the other (rueidis asks Redis 8 for shards, all else is asked for slots), and follow a slot that moves.
var clusterCommands = []string{"cluster|slots +cluster|shards", "asking"}

// TestTheSmallestRulesOfAClusterAreEnough, also where a slot moves, and each of them is needed.
func TestTheSmallestRulesOfAClusterAreEnough(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, c := range clients {
		for _, without := range append([]string{""}, clusterCommands...) {
			t.Run(c.name+"/without "+without, func(t *testing.T) {
				rules := append(plus(commands), "~slidegate:*")
				for _, c := range clusterCommands {
					if c != without {
						rules = append(rules, strings.Fields("+"+c)...)
					}
				}
				for _, s := range cluster.Nodes {
					s.User("limits", "secret", rules...)
				}
				err := moving(t, cluster, c.tryConnect)
				if without == "" && err != nil {
					t.Errorf("with %s: %v", strings.Join(rules, " "), err)
				}
				if without != "" && err == nil {
					t.Errorf("%s is not needed", without)
				}
			})
		}
	}
}

// moving asks for a key in a slot that moves, as the user, and returns the first error.
func moving(t *testing.T, cluster *redistest.RedisCluster, connect tryConnect) error {
	as := toCluster(cluster)
	as.user, as.password = "limits", "secret"
	client, stop, err := connect(as)
	if err != nil {
		return err
	}
	defer stop()
	l := slidegate.MustNew(redisstore.New(client, redisstore.WithTimeout(time.Second)), slidegate.PerHour(1000))
	if _, err := l.Take(background, key); err != nil {
		return err
	}
	slot := cluster.SlotOf("{" + key + "}")
	move := cluster.BeginMove(slot, cluster.OtherThan(cluster.OwnerOf(slot)))
	move.Keys()
	defer move.End()
	_, err = l.Take(background, key)
	return err
}

// TestThePageHasTheSmallestRules: docs/redis.md tells of these rules, and of no others.
func TestThePageHasTheSmallestRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, rules := range []string{
		"ACL SETUSER limits reset on >secret ~slidegate:* " + strings.Join(plus(commands), " ") + " ```",
		"which takes `" + strings.Join(plus(clusterCommands), " ") + "` as well",
	} {
		if !strings.Contains(page, rules) {
			t.Errorf("docs/redis.md does not have %s", rules)
		}
	}
}

func mentions(err error, any ...string) bool {
	return slices.ContainsFunc(any, func(s string) bool { return strings.Contains(strings.ToLower(err.Error()), strings.ToLower(s)) })
}

// TestRulesKeepStrangersOut: a user of one prefix cannot touch another.
func TestRulesKeepStrangersOut(t *testing.T) {
	each(t, func(t *testing.T, connect connect) {
		server := redistest.Standalone(t)
		server.User("limits", "secret", append([]string{"~slidegate:*"}, plus(commands)...)...)
		as := to(server)
		as.user, as.password = "limits", "secret"
		l := slidegate.MustNew(redisstore.New(connect(t, as), redisstore.WithTimeout(generous), redisstore.WithPrefix("other")), slidegate.PerHour(1))
		if _, err := l.Take(background, key); !errors.Is(err, slidegate.ErrUnavailable) {
			t.Errorf("another prefix: %v", err)
		}
	})
}

func plus(commands []string) (rules []string) {
	for _, c := range commands {
		rules = append(rules, "+"+c)
	}
	return rules
}

// everything asks a store for all that it can do, with logs small and large, and for live processes, and returns the first error.
func everything(store slidegate.Store) error {
	l, err := slidegate.New(store, slidegate.PerHour(100_000), slidegate.PerHour(100_000).Counter(), slidegate.Per(2*time.Hour, 100_000).WithResolution(time.Minute))
	if err != nil {
		return err
	}
	var last slidegate.Decision
	for entries := 0; entries < 500; { // of as many milliseconds, so that the log grows large
		d, err := l.Take(background, key)
		if err != nil {
			return err
		}
		if d.At().After(last.At()) {
			entries++
		}
		last = d
	}
	if _, err := l.Peek(background, key); err != nil {
		return err
	}
	if err := l.Refund(background, &last); err != nil {
		return err
	}
	if _, err := l.TakeN(background, key, 100_000); err != nil { // refused
		return err
	}
	if err := l.Reset(background, key); err != nil {
		return err
	}
	replicas, err := wrap.CountReplicas(store)
	for range 2 { // the second takes the first back
		if err == nil {
			err = replicas.Beat(background)
		}
	}
	if err != nil {
		return err
	}
	return replicas.Leave(background)
}
