package caddy

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// TestTwoCaddysShareARedis, and a zone is a prefix there.
func TestTwoCaddysShareARedis(t *testing.T) {
	redis := redistest.Standalone(t, redistest.WithPassword("hunter/2"))
	site := "\tslidegate {\n\t\tzone api\n\t\tlimit n=3/1h\n\t\tkey {header.X-API-Key}\n\t\tstore redis://" + redis.Addr +
		"/0 {\n\t\t\tpassword {env.REDIS_PASSWORD}\n\t\t\ttimeout 10s\n\t\t}\n\t}\n\trespond ok"
	one, two := start(t, site, "REDIS_PASSWORD=hunter/2"), start(t, site, "REDIS_PASSWORD=hunter/2")
	one.want(200, `"n";r=2;t=3600`, "/", "X-API-Key: k")
	two.want(200, `"n";r=1;t=3600`, "/", "X-API-Key: k")
	one.want(200, `"n";r=0;t=3600`, "/", "X-API-Key: k")
	two.want(429, `"n";r=0;t=3600`, "/", "X-API-Key: k")
	if keys := redis.Keys(); len(keys) != 1 || keys[0] != "slidegate:api:{header:X-Api-Key:k}:n:1h" {
		t.Errorf("Redis holds %q", keys)
	}
	for _, s := range []*server{one, two} {
		s.stop() // so that the log is all there
		if text := s.log.String(); strings.Contains(text, "hunter") || strings.Contains(text, "X-Api-Key") {
			t.Errorf("the log shows a password or a key:\n%s", text)
		}
	}
}

// TestSecretsKeepKeysFromRedis, and a configuration shows none.
func TestSecretsKeepKeysFromRedis(t *testing.T) {
	redis := redistest.Standalone(t)
	s := start(t, limited("a", "n=3/1h", "\t\tkey {header.X-API-Key}\n\t\tsecret {env.KEY_SECRET}\n\t\tstore "+redis.URL()+" {\n\t\t\ttimeout 10s\n\t\t}"),
		"KEY_SECRET=0123456789abcdef0123456789abcdef")
	s.want(200, `"n";r=2;t=3600`, "/", "X-API-Key: hunter2")
	s.want(200, `"n";r=1;t=3600`, "/", "X-API-Key: hunter2")
	if keys := redis.Keys(); len(keys) != 1 || !strings.HasPrefix(keys[0], "slidegate:a:{hmac:") || strings.Contains(keys[0], "hunter2") {
		t.Errorf("Redis holds %q", keys)
	}
	if config := s.ask("/config/"); !strings.Contains(config, "{env.KEY_SECRET}") || strings.Contains(config, "0123456789abcdef") {
		t.Errorf("the configuration is %s", config)
	}
}

// TestRedisIsDown: requests pass or are refused as the configuration says, from the start of Caddy on, and are
// counted as soon as Redis is there.
func TestRedisIsDown(t *testing.T) {
	redis := redistest.NewServer(t)
	store := "\t\tstore " + redis.URL() + " {\n\t\t\ttimeout 10s\n\t\t}"
	s := start(t, `
	handle /open {
		slidegate {
			zone open
			limit n=5/1h
`+store+`
		}
		respond "open"
	}
	handle /closed {
		slidegate {
			zone closed
			limit n=5/1h
			fail closed
`+store+`
		}
		respond "closed"
	}
	handle /errors {
		slidegate {
			zone errors
			limit n=5/1h
			fail closed
			handle_errors
`+store+`
		}
		respond "errors"
	}
	handle_errors {
		respond "status {err.status_code}"
	}`)
	if r := s.want(200, "", "/open"); r.body != "open" {
		t.Errorf("failing open answers %q", r.body)
	}
	if r := s.want(503, "", "/closed"); !strings.Contains(r.body, "Service Unavailable") {
		t.Errorf("failing closed answers %q", r.body)
	}
	if r := s.want(503, "", "/errors"); r.body != "status 503" {
		t.Errorf("failing closed with handle_errors answers %q", r.body)
	}
	if n := s.counter(`caddy_slidegate_undecided_total{reason="store",zone="open"}`); n != 1 {
		t.Errorf("%v requests could not be decided, want 1", n)
	}
	redis.Start()
	for _, path := range []string{"/open", "/closed", "/errors"} {
		redistest.Await(t, patience, path+" is counted", func() bool { return s.get(path).header.Get("RateLimit") != "" })
	}
	redis.Kill()
	redistest.Await(t, patience, "it is down again", func() bool { return s.get("/open").header.Get("RateLimit") == "" })
	s.want(503, "", "/closed")
	if text := s.log.String(); !strings.Contains(text, "requests cannot be decided") || strings.Contains(text, "ip:127.0.0.1") {
		t.Errorf("the log:\n%s", text)
	}
}

// TestReloadChangesStores: another store is another budget, and Redis keeps its counts by itself.
func TestReloadChangesStores(t *testing.T) {
	redis := redistest.Standalone(t)
	store := "\t\tstore " + redis.URL() + " {\n\t\t\ttimeout 10s\n\t\t}"
	s := start(t, limited("a", "n=3/1h", ""))
	s.want(200, `"n";r=2;t=3600`, "/")
	s.mustReload(limited("a", "n=3/1h", store))
	s.want(200, `"n";r=2;t=3600`, "/")
	s.mustReload(limited("a", "n=4/1h", store))
	s.want(200, `"n";r=2;t=3600`, "/")
	if keys := redis.Keys(); len(keys) != 1 || keys[0] != "slidegate:a:{ip:127.0.0.1}:n:1h" {
		t.Errorf("Redis holds %q", keys)
	}
}
