package caddygate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
)

// Store says where the counts are.
type Store struct {
	// URL is memory, or a Redis: redis://HOST:PORT/DB, rediss:// with TLS, redis+cluster://HOST:PORT,HOST:PORT or
	// rediss+cluster://. It may hold global placeholders, such as {env.REDIS_HOST}. Default: memory.
	URL string `json:"url,omitempty"`

	// MaxKeys is how many keys the memory of a zone holds at most, 1 to 2^30; beyond that the key that would be
	// idle soonest is forgotten. Changing it begins with an empty memory. Default: 1000000.
	MaxKeys int `json:"max_keys,omitempty"`

	// Username is for Redis, and may be a placeholder. Default: that of the URL, if any.
	Username string `json:"username,omitempty"`

	// Password is for Redis, and should be a placeholder, such as {env.REDIS_PASSWORD} or {file./run/secrets/redis}.
	// Default: that of the URL, if any.
	Password string `json:"password,omitempty"`

	// Prefix is what keys in Redis begin with; a zone with a name adds a colon and the name. Default: slidegate.
	Prefix string `json:"prefix,omitempty"`

	// Timeout is how long Redis may take to answer, 1ms to 1m. Default: 50ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

const inMemory = "memory"

func (s Store) isRedis() bool { return s.URL != inMemory }

var zoneName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

func isZone(name string) bool { return zoneName.MatchString(name) }

// check says what is wrong with the settings as far as they can be told before the placeholders have their values.
func (s *Store) check() error {
	if s == nil {
		return nil
	}
	plain := *s
	for _, text := range []*string{&plain.URL, &plain.Username, &plain.Password} {
		if strings.Contains(*text, "{") {
			*text = ""
		}
	}
	if plain.URL == "" && s.URL != "" {
		plain.URL = "redis://127.0.0.1"
	}
	_, err := plain.complete()
	return err
}

// resolve returns the settings with defaults and values in the place of what is left open.
func (s *Store) resolve() (Store, error) {
	if s == nil {
		s = new(Store)
	}
	all := *s
	for _, field := range []struct {
		name string
		text *string
	}{{"url", &all.URL}, {"username", &all.Username}, {"password", &all.Password}} {
		value, err := resolve(field.name, *field.text)
		if err != nil {
			return all, fmt.Errorf("store: %w", err)
		}
		*field.text = value
	}
	return all.complete()
}

// resolve puts the values of global placeholders into a setting. What is of a file loses the end of its last line.
func resolve(name, text string) (string, error) {
	value, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimRight(value, "\r\n"), nil
}

// complete fills in the defaults, and says what does not belong together.
func (s Store) complete() (Store, error) {
	if s.URL == "" {
		s.URL = inMemory
	}
	if s.isRedis() {
		return s.completeRedis()
	}
	if s.Username != "" || s.Password != "" || s.Prefix != "" || s.Timeout != 0 {
		return s, errors.New("store memory: username, password, prefix and timeout are about Redis")
	}
	if s.MaxKeys == 0 {
		s.MaxKeys = memstore.DefaultMaxKeys
	}
	if s.MaxKeys < 1 || s.MaxKeys > 1<<30 {
		return s, fmt.Errorf("store memory: max_keys %d: allowed is 1 to %d", s.MaxKeys, 1<<30)
	}
	return s, nil
}

func (s Store) completeRedis() (Store, error) {
	if s.MaxKeys != 0 {
		return s, errors.New("store: max_keys is about memory: Redis bounds itself (see its maxmemory)")
	}
	if s.Prefix == "" {
		s.Prefix = redisstore.DefaultPrefix
	}
	if strings.TrimSpace(s.Prefix) == "" || strings.ContainsAny(s.Prefix, "{}") {
		return s, fmt.Errorf("store: prefix %q: allowed is any text that is not blank and has no braces", s.Prefix)
	}
	if s.Timeout == 0 {
		s.Timeout = caddy.Duration(redisstore.DefaultTimeout)
	}
	if d := time.Duration(s.Timeout); d < time.Millisecond || d > time.Minute {
		return s, fmt.Errorf("store: timeout %s: allowed is 1ms to 1m", d)
	}
	_, err := s.client()
	return s, err
}

// The errors of a URL show nothing of it: nearly all of it may be a part of a password.
var (
	errScheme = errors.New("store: allowed is memory, or a URL that begins with redis://, rediss://, redis+cluster:// or rediss+cluster://, as in redis://127.0.0.1:6379/0")
	errURL    = errors.New("store: the URL cannot be read: allowed is redis://USER:PASSWORD@HOST:PORT/DB without more; a password with / ? # @ or % in it has a setting of its own, password")
	errHost   = errors.New("store: a host is missing or has no port of 1 to 65535, as in redis://127.0.0.1:6379 or redis://[::1]:6379")
	errHosts  = errors.New("store: several hosts are the nodes of a cluster: redis+cluster://HOST:PORT,HOST:PORT")
	errDB     = errors.New("store: a database is a whole number from 0, as in redis://127.0.0.1:6379/0, and a cluster has the database 0 alone")
)

// client returns the options of a client, read from the URL.
func (s Store) client() (option rueidis.ClientOption, err error) {
	scheme, rest, _ := strings.Cut(s.URL, "://")
	family, cluster := strings.CutSuffix(scheme, "+cluster")
	if family != "redis" && family != "rediss" {
		return option, errScheme
	}
	authority, db, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest, "?# ") || strings.Contains(db, "@") {
		return option, errURL
	}
	patience := max(time.Second, time.Duration(s.Timeout)) // connecting may outlast the call that needs it
	option = rueidis.ClientOption{
		ForceSingleClient: !cluster, Dialer: net.Dialer{Timeout: patience}, ConnWriteTimeout: patience,
		DisableRetry: true, DisableCache: true, ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	if family == "rediss" {
		option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	hosts, err := s.user(&option, authority)
	if err != nil {
		return option, err
	}
	if option.InitAddress, err = hostsOf(hosts, cluster); err != nil || db == "" {
		return option, err
	}
	number, err := strconv.ParseUint(db, 10, 31)
	if err != nil || cluster && number != 0 {
		return option, errDB
	}
	option.SelectDB = int(number)
	return option, nil
}

// user takes the user and the password off an authority, where the settings have no others, and returns the rest.
func (s Store) user(option *rueidis.ClientOption, authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	username, password, _ := strings.Cut(authority[:max(at, 0)], ":")
	if option.Username, err = url.PathUnescape(username); err != nil {
		return "", errURL
	}
	if option.Password, err = url.PathUnescape(password); err != nil {
		return "", errURL
	}
	if s.Username != "" {
		option.Username = s.Username
	}
	if s.Password != "" {
		option.Password = s.Password
	}
	return authority[at+1:], nil
}

// hostsOf reads HOST:PORT,HOST:PORT. Without a port it is 6379.
func hostsOf(text string, cluster bool) (hosts []string, err error) {
	for host := range strings.SplitSeq(text, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port, err = net.SplitHostPort(host + ":6379")
		}
		number, notNumber := strconv.ParseUint(port, 10, 16)
		if err != nil || notNumber != nil || name == "" || number == 0 {
			return nil, errHost
		}
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	if len(hosts) > 1 && !cluster {
		return nil, errHosts
	}
	return hosts, nil
}
