package storage

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A kind is what stands at an address.
type kind uint8

const (
	single   kind = iota
	socket        // a single Redis behind a Unix socket
	cluster       // some nodes of a cluster
	sentinel      // some sentinels of a primary
)

// A scheme is a way to write an address.
type scheme struct {
	kind kind
	tls  bool
}

var schemes = map[string]scheme{
	"redis": {single, false}, "rediss": {single, true}, "unix": {socket, false},
	"redis+cluster": {cluster, false}, "rediss+cluster": {cluster, true},
	"redis+sentinel": {sentinel, false}, "rediss+sentinel": {sentinel, true},
}

// An Address says where Redis is and who asks. It prints as a URL without its passwords.
type Address struct {
	scheme
	name     string   // of the scheme
	hosts    []string // HOST:PORT, or the path of a socket
	master   string   // what the sentinels call the primary
	db       int
	username string
	password string

	sentinelUsername string
	sentinelPassword string
}

// ParseAddress reads the URL of a Redis. An error says what is wrong in one sentence and shows nothing of
// the text that might be a part of a password, which is nearly all of it.
func ParseAddress(text string) (*Address, error) {
	name, rest, ok := strings.Cut(strings.TrimSpace(text), "://")
	s, known := schemes[name]
	if !ok || !known {
		return nil, notAddress(name)
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
		return nil, errEscape
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, hasPath := strings.Cut(rest, "/")
	if strings.Contains(path+query, "@") {
		return nil, errEscape // what was cut may be a part of a password
	}
	a := &Address{scheme: s, name: name}
	hosts, err := a.parseUser(authority)
	if err != nil {
		return nil, err
	}
	if s.kind == socket {
		err = a.parseSocket(hosts, path, hasPath)
	} else if err = a.parseHosts(hosts); err == nil {
		err = a.parsePath(path)
	}
	if err != nil {
		return nil, err
	}
	return a, a.parseQuery(query)
}

var (
	errEscape = errors.New("the URL cannot be read: in a user name or a password / is written as %2F, ? as %3F, # as %23, @ as %40, % as %25 and a space as %20")
	errDB     = errors.New("a database is a whole number from 0, as in redis://127.0.0.1:6379/0")
)

// urlForms are the ways to write an address.
const urlForms = "a URL such as redis://127.0.0.1:6379/0, rediss:// with TLS, redis+cluster://HOST:PORT,HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or unix:///run/redis.sock"

// A formError is about a text that is no address at all.
type formError struct{ got string } // with a space before it; empty if it is not to be shown

func (e *formError) Error() string { return e.got + ": allowed is " + urlForms }

var plainWord = regexp.MustCompile(`^[a-z][a-z+.-]{0,20}$`)

// notAddress shows a plain word alone: anything else may be a password in the wrong place.
func notAddress(name string) error {
	if !plainWord.MatchString(name) {
		return &formError{}
	}
	return &formError{" " + strconv.Quote(name)}
}

// parseUser takes the user and the password off an authority and returns the rest.
func (a *Address) parseUser(authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	username, password, _ := strings.Cut(authority[:at], ":")
	if a.username, err = url.PathUnescape(username); err != nil {
		return "", errEscape
	}
	if password, err = url.PathUnescape(password); err != nil {
		return "", errEscape
	}
	a.password = password
	return authority[at+1:], nil
}

func (a *Address) parseHosts(text string) error {
	if text == "" {
		return fmt.Errorf("a host is missing, as in %s://127.0.0.1:6379", a.name)
	}
	port := "6379"
	if a.kind == sentinel {
		port = "26379"
	}
	for _, part := range strings.Split(text, ",") {
		host, err := parseHost(part, port)
		if err != nil {
			return err
		}
		if !slices.Contains(a.hosts, host) {
			a.hosts = append(a.hosts, host)
		}
	}
	if a.kind == single && len(a.hosts) > 1 {
		return fmt.Errorf("%s:// has %d hosts: several nodes of a cluster are written redis+cluster://HOST:PORT,HOST:PORT and several sentinels redis+sentinel://HOST:PORT,HOST:PORT/MASTER", a.name, len(a.hosts))
	}
	return nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// parseHost reads HOST, HOST:PORT, [IPv6] or [IPv6]:PORT.
func parseHost(text, defaultPort string) (string, error) {
	host, port, hasPort := strings.Cut(text, ":")
	if inner, ok := strings.CutPrefix(text, "["); ok {
		host, port, ok = strings.Cut(inner, "]")
		hasPort = port != ""
		if hasPort && port[0] != ':' {
			ok = false
		}
		port = strings.TrimPrefix(port, ":")
		if addr, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)); ok && err == nil && addr.Is6() {
			host = addr.String()
		} else {
			return "", errIPv6
		}
	} else if strings.Contains(port, ":") {
		return "", errIPv6
	} else if !hostName.MatchString(host) {
		return "", errors.New("a host is missing, or holds what no host name does")
	}
	if !hasPort {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("a port is a whole number of 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

var errIPv6 = errors.New("an IPv6 address is written in brackets, as in redis://[::1]:6379")

func (a *Address) parseSocket(authority, path string, hasPath bool) error {
	path, err := url.PathUnescape(path)
	if err != nil {
		return errEscape
	}
	if authority != "" || !hasPath || path == "" {
		return errors.New("a Unix socket is written with three slashes, as in unix:///run/redis.sock")
	}
	a.hosts = []string{"/" + path}
	return nil
}

// parsePath reads what is behind the hosts: a database, the name of a primary and a database, or nothing.
func (a *Address) parsePath(path string) (err error) {
	db := strings.TrimSuffix(path, "/")
	if a.kind == sentinel {
		var master string
		if master, db, _ = strings.Cut(db, "/"); master == "" {
			return fmt.Errorf("the name that the sentinels have for the primary is missing, as in %s://HOST:26379/mymaster", a.name)
		}
		if a.master, err = url.PathUnescape(master); err != nil {
			return errEscape
		}
	}
	if db == "" {
		return nil
	}
	return a.parseDB(db)
}

func (a *Address) parseDB(text string) error {
	db, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errDB
	}
	if a.kind == cluster && db != 0 {
		return errors.New("a cluster has the database 0 alone: leave the database out")
	}
	a.db = int(db)
	return nil
}

var parameters = map[kind][]string{
	single: {"db"}, socket: {"db"}, cluster: {}, sentinel: {"db", "sentinel_username", "sentinel_password"},
}

func (a *Address) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errEscape
	}
	for name, all := range values {
		if !slices.Contains(parameters[a.kind], name) {
			return a.unknownParameter(name)
		}
		if len(all) > 1 {
			return fmt.Errorf("the parameter %s is given %d times", name, len(all))
		}
	}
	if values.Has("db") {
		inPath := a.db
		if err := a.parseDB(values.Get("db")); err != nil {
			return err
		}
		if inPath != 0 && inPath != a.db {
			return errors.New("the path and the parameter db name two databases: give one")
		}
	}
	a.sentinelUsername = values.Get("sentinel_username")
	a.sentinelPassword = values.Get("sentinel_password")
	return nil
}

var parameterName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z_]{0,40}$`)

func (a *Address) unknownParameter(name string) error {
	what := "a parameter is unknown"
	if parameterName.MatchString(name) {
		what = fmt.Sprintf("the parameter %s is unknown", name)
	}
	allowed := strings.Join(parameters[a.kind], ", ")
	if allowed == "" {
		allowed = "none"
	}
	return fmt.Errorf("%s: allowed with %s:// is %s", what, a.name, allowed)
}

// String returns the URL without its passwords.
func (a *Address) String() string {
	u := url.URL{Scheme: a.name, Host: strings.Join(a.hosts, ",")}
	db := strconv.Itoa(a.db)
	switch {
	case a.kind == socket:
		u.Host, u.Path = "", a.hosts[0]
	case a.kind == single:
		u.Path = "/" + db
	case a.kind == sentinel:
		u.Path = "/" + a.master
	}
	if a.db != 0 && a.kind == sentinel {
		u.Path += "/" + db
	} else if a.db != 0 && a.kind == socket {
		u.RawQuery = "db=" + db
	}
	if a.password != "" {
		u.User = url.UserPassword(a.username, "xxxxx")
	}
	return u.String()
}

// GoString implements [fmt.GoStringer].
func (a *Address) GoString() string { return strconv.Quote(a.String()) }

// secrets are what must not be printed.
func (a *Address) secrets() []string {
	return slices.DeleteFunc([]string{a.password, a.sentinelPassword}, func(s string) bool { return s == "" })
}
