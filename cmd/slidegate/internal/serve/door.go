package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// A door is an address that is served, and by what. All of them ask the same store.
type door struct {
	flag     string // that opens it
	address  string
	server   servant
	listener net.Listener // nil until it is bound
	scheme   string       // of its URL
}

// doorFlags are the flags that open a door.
var doorFlags = []string{"listen", "auth-listen", "api-listen", "rls-listen", "rls-http-listen", "admin"}

// A servant answers at a door. One of net/http does it as it is.
type servant interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// url is where the door is, once it is bound.
func (d *door) url() string {
	path := map[string]string{"auth-listen": "/auth", "rls-http-listen": "/json"}[d.flag]
	return d.scheme + "://" + d.listener.Addr().String() + path
}

// doors returns those that the flags open.
func (s *server) doors() (open []*door) {
	if s.listen != "" {
		open = append(open, &door{flag: "listen", address: s.listen, server: s.newServer(s.patient(s.admit(s.wrap(s.behind()))))})
	}
	if s.authListen != "" {
		open = append(open, &door{flag: "auth-listen", address: s.authListen, server: s.newServer(s.patient(s.admit(s.auth)))})
	}
	if s.apiListen != "" {
		open = append(open, &door{flag: "api-listen", address: s.apiListen, server: s.apiServer()})
	}
	return append(open, s.rlsDoors()...)
}

// bind takes the addresses of all doors, or of none.
func (s *server) bind(doors []*door) (err error) {
	for _, d := range doors {
		listen := net.Listen
		if d.flag == "admin" {
			listen = func(_, address string) (net.Listener, error) { return admin.Listen(address) }
		}
		if d.listener, err = listen("tcp", d.address); err != nil {
			closeAll(doors)
			return fmt.Errorf("--%s: %w", d.flag, err)
		}
		if d.flag != "admin" { // which answers when nothing else does
			d.listener = s.limitConnections(d, d.listener)
		}
		if slices.Contains(s.proxyProtocol, d.flag) {
			d.listener = &behindProxy{Listener: d.listener, server: s, flag: d.flag}
		}
		if d.scheme = s.scheme(d.flag); s.isSecure(d.flag) {
			d.listener = s.certificates.listener(d.listener)
		}
	}
	return nil
}

// closeAll gives the addresses back, and ends what still uses them.
func closeAll(doors []*door) {
	for _, d := range doors {
		d.server.Close()
		if d.listener != nil {
			d.listener.Close()
		}
	}
}

// shutdown closes the doors at once and waits for the requests under way.
func shutdown(ctx context.Context, doors []*door) error {
	ended := make(chan error, len(doors))
	for _, d := range doors {
		go func() { ended <- d.server.Shutdown(ctx) }()
	}
	var all []error
	for range doors {
		all = append(all, <-ended)
	}
	return errors.Join(all...)
}

// newAuth makes the forward-auth door, if it is to be.
func (s *server) newAuth() error {
	if s.authListen == "" {
		return config.RefuseFlags(s.given, "it is about --auth-listen, which is not given", "auth-dialect", "auth-deny-status", "auth-trusted-peers")
	}
	if s.authDialect == "" {
		return config.Usagef("--auth-dialect is missing: allowed is %s", strings.Join(auth.Dialects(), ", "))
	}
	dialect, err := auth.ParseDialect(s.authDialect)
	if err != nil {
		return config.Usagef("--auth-%w", err)
	}
	s.auth, err = auth.New(auth.Config{
		Dialect: dialect, Trusted: trimmed(s.authTrusted), DenyStatus: s.authDenyStatus, Logger: s.log,
	}, s.verdicts)
	if err != nil {
		return config.Usagef("%s", authFlagNames.Replace(strings.TrimPrefix(err.Error(), slidegate.ErrInvalidLimit.Error()+": ")))
	}
	return nil
}

// authFlagNames are what the settings of the forward-auth door are called here.
var authFlagNames = strings.NewReplacer(", or say TrustEverybody", "", "trusted proxies", "--auth-trusted-peers", "deny status", "--auth-deny-status")
