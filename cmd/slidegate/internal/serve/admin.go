package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/bans"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
)

func (p *plan) adminFlags(f *pflag.FlagSet) {
	f.StringVar(&p.admin, "admin", "", "the `address`, or unix:/PATH, for /healthz, /readyz and /metrics, and for those who run the process (default: none)")
	f.StringVar(&p.adminTokenFile, "admin-token-file", "", "the `file` with the bearer token that they must show for more than those three, which may also be in $"+config.AdminToken+" (default: there is no more, but at unix:/PATH)")
	f.StringVar(&p.auditLog, "audit-log", "", "the `file` in which every change made there is written down (default: the log)")
	f.StringVar(&p.auditKeys, "audit-keys", "hashed", "how keys stand there: hashed, under the token, or plain")
}

// withBans has the store refuse whoever people have banned.
func (s *server) withBans() {
	s.bans = bans.NewList(s.backend.shared)
	s.backend.store = s.bans.Wrap(s.backend.store)
	s.metrics.registry.MustRegister(bansMetrics(s.bans)...)
}

// newAdmin makes the door of those who run the process, if it is to be.
func (s *server) newAdmin() error {
	if s.admin == "" {
		return config.RefuseFlags(s.given, "it is about --admin, which is not given", "admin-token-file", "audit-log", "audit-keys")
	}
	path, isSocket := admin.SocketPath(s.admin)
	if isSocket && slices.Contains(s.proxyProtocol, "admin") {
		return config.Usagef("--proxy-protocol admin: --admin is the socket %s, to which no proxy connects", path)
	}
	token, err := config.ReadToken("admin-token-file", s.adminTokenFile, config.AdminToken)
	if err != nil {
		return err
	}
	s.isManaged, s.hasAdminToken = isSocket || token != "", token != ""
	if !s.isManaged {
		if err := config.RefuseFlags(s.given, "there is nothing to write down: nobody may change anything without --admin-token-file, or --admin unix:/PATH", "audit-log", "audit-keys"); err != nil {
			return err
		}
	} else {
		s.refusals = admin.NewRefusals(s.bans)
	}
	audit, err := s.newAudit(token)
	if err != nil {
		return err
	}
	s.manage = admin.New(admin.Config{
		Open: s.openHandler(), Token: token, IsPrivate: isSocket, Counted: s.counted, Counts: s.counts, Store: s.backend.inner,
		Rules: func() any { return s.effective() }, Unban: s.unban, Bans: s.bans, Refusals: s.refusals, Audit: audit,
	})
	return nil
}

func (s *server) newAudit(token string) (*admin.Audit, error) {
	path := s.auditLog
	if !s.isManaged {
		path = "" // which a variable may name for others
	}
	audit, err := admin.NewAudit(path, s.log, s.auditKeys == "plain", token)
	if err != nil {
		return nil, config.Usagef("--audit-log: %s cannot be written: %w", path, err)
	}
	return audit, nil
}

// adminDoor returns the door of those who run the process. It stays open while the others drain.
func (s *server) adminDoor() *door {
	return &door{flag: "admin", address: s.admin, server: &http.Server{
		Handler: s.manage, ReadHeaderTimeout: s.readHeaderTimeout, IdleTimeout: s.idleTimeout,
		MaxHeaderBytes: 16 << 10, ErrorLog: s.debugLog(), ConnContext: admin.WithPeer,
	}}
}

// adminFact says what is there, and for whom.
func (s *server) adminFact(at net.Addr) fact {
	where := fmt.Sprintf("%s://%s/healthz /readyz /metrics", s.scheme("admin"), at)
	if path, ok := admin.SocketPath(s.admin); ok {
		where = fmt.Sprintf("unix:%s /healthz /readyz /metrics", path)
	}
	if !s.isManaged {
		return fact{"admin", where}
	}
	who := "whoever shows the token"
	if at.Network() == "unix" {
		who = "whoever may use the socket"
		if s.hasAdminToken {
			who += " and shows the token"
		}
	}
	return fact{"admin", fmt.Sprintf("%s; %s may look into keys, reset, ban and unban them: slidegate admin --help", where, who)}
}

// counted is a key as it is counted: an address as the gates have it, any other key as it is.
func (s *server) counted(key string) string {
	text, ok := strings.CutPrefix(key, "ip:")
	addr, err := netip.ParseAddr(text)
	if !ok || err != nil {
		return key
	}
	return "ip:" + s.addresses.Key(addr.Unmap().WithZone(""))
}

func (s *server) counts(rule, plan, key string) (all []admin.Count, ok bool) {
	if s.live == nil {
		if rule != "" || plan != "" || !s.usesLimits() {
			return nil, rule == "" && plan == ""
		}
		return []admin.Count{{Key: key, Limiter: s.limiter}}, true
	}
	found, ok := s.live.Engine().Counts(rule, plan, key)
	for _, c := range found {
		all = append(all, admin.Count(c))
	}
	return all, ok
}

func (s *server) effective() rules.Effective {
	if s.live != nil {
		return s.live.Engine().Effective()
	}
	if !s.usesLimits() {
		return rules.Effective{Rules: []rules.EffectiveRule{}}
	}
	return rules.EffectiveLimits(s.limits, s.key.String(), s.onStoreError, s.formats)
}

// unban ends the bans of rules.
func (s *server) unban(r *http.Request, key string) error {
	if s.live == nil {
		return nil
	}
	return s.live.Engine().Unban(context.WithoutCancel(r.Context()), key)
}

// observe is told of every request that is held to --limit: it is counted, and kept if it was refused.
func (s *server) observe(e *httpgate.Event) {
	s.metrics.observe(e)
	s.observed(e)
	s.refusals.Note(e, "", false)
}

// observeRules is observe for one that is held to rules.
func (s *server) observeRules(e *rules.Event) {
	s.metrics.observeRules(e)
	s.observed(e.Event)
	rule := ""
	if refuser := e.Refuser(); refuser != nil {
		rule = refuser.FullName()
	}
	s.refusals.Note(e.Event, rule, e.Blocked)
}
