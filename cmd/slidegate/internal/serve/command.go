// Package serve is the command that stands in front of a service.
package serve

import (
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/auth"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/wrap"
)

// A plan is what the flags say.
type plan struct {
	config string
	file   *rules.File // what config says, nil for none

	listen, admin, upstream, key, whenFull, onStoreError, clientIPHeader, logFormat string
	limits, trusted, headers                                                        []string
	trustedHops, ipv6Prefix, maxKeys                                                int
	fallback                                                                        string
	share                                                                           share // what fallback says
	rememberRefusals                                                                time.Duration
	refusalsMax                                                                     int
	authListen, authDialect                                                         string
	authTrusted                                                                     []string
	authDenyStatus                                                                  int
	apiListen, apiTokenFile                                                         string
	adminTokenFile, auditLog, auditKeys                                             string
	proxyProtocol, proxyProtocolFrom                                                []string
	rlsListen, rlsHTTPListen, rlsConfig, rlsAlgorithm                               string
	rlsTogether, rlsShadow, rlsQuota, rlsHeaders, rlsMetadata                       bool
	rlsMerge, rlsOriginalMetrics                                                    bool
	readHeaderTimeout, idleTimeout, upstreamTimeout, grace                          time.Duration

	bounds
	security

	storage storage.Flags
	given   *pflag.FlagSet
}

// words are the values of the flags that take a word.
var words = map[string][]string{
	"when-full":      {"forget", "refuse"},
	"on-store-error": {"open", "closed"},
	"log-format":     {"text", "json"},
	"rls-algorithm":  {"log", "counter"},
	"audit-keys":     {"hashed", "plain"},
}

// Command returns the command; version goes to the metrics.
func Command(version string) *cobra.Command {
	cmd, _ := command(version)
	return cmd
}

// command returns the command, and the plan that its flags set.
func command(version string) (*cobra.Command, *plan) {
	p := new(plan)
	cmd := &cobra.Command{
		Use:   "serve (--limit L … | --config FILE) [--upstream URL]",
		Short: "Stand in front of a service and refuse what is too much",
		Long: `Serve is a reverse proxy that holds clients to limits. Requests that are admitted go to the
upstream; others get 429 with the time to retry. Streaming, WebSocket and HTTP/2 pass. Without
an upstream it answers itself, with a small JSON, so that limits can be tried.

Every limit of a request is charged or none. State is in this process, and a restart begins with
full quotas; with --store redis://… it is in Redis, and all processes that say so share the quotas.
A Redis that does not answer in time is no reason to wait: --on-store-error says what then.

With --auth-listen it answers proxies that ask before they pass a request on (nginx, Traefik,
Caddy, HAProxy, Envoy), and with --api-listen programs that ask in JSON, beside or instead of
being one. With --rls-listen it is the rate limit service of Envoy, by the rule files in
--rls-config, which needs no --limit.

With --config there are rules instead of limits, for some paths, hosts, methods and clients, and
any flag may stand in the file under its own name. The file is read again when it changes, and
at SIGHUP; a bad one changes nothing. Read on in docs/rules.md.`,
		Example: `  slidegate serve --limit 100/1m --upstream http://127.0.0.1:3000
  slidegate serve --limit login=5/15m --key ip+path --listen :8080 --admin 127.0.0.1:9090
  slidegate serve --limit 100/1m --trusted-proxies 10.0.0.0/8 --client-ip-header X-Forwarded-For
  slidegate serve --limit 100/1m --store redis://127.0.0.1:6379/0
  slidegate serve --limit 100/1m --listen '' --auth-listen 127.0.0.1:9100 --auth-dialect nginx
  slidegate serve --limit 100/1m --listen '' --api-listen 127.0.0.1:9200
  slidegate serve --listen '' --rls-listen 127.0.0.1:8081 --rls-config rules
  slidegate serve --config rules.yaml
  SLIDEGATE_LIMIT='burst=20/1s;sustained=100/1m' slidegate serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.followsFiles() {
				signal.Ignore(syscall.SIGHUP) // until they are followed: one that comes early must not end the process
			}
			if err := p.readFile(); err != nil {
				return err
			}
			s, err := p.build(version, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	p.given = cmd.Flags()
	p.flags(p.given)
	p.storage.Add(cmd, storage.Defaults{Store: "memory", Prefix: redisstore.DefaultPrefix, Timeout: redisstore.DefaultTimeout})
	for _, name := range []string{"trusted-hops", "max-connections-per-client", "max-body"} {
		cmd.Flags().Lookup(name).DefValue = "0" // there is no default to show
	}
	complete(cmd)
	return cmd, p
}

// followsFiles tells whether SIGHUP is about any file. A file of rules may name the others.
func (p *plan) followsFiles() bool { return p.config+p.rlsConfig+p.tlsCert != "" }

// unset is the number of a flag that was not given.
const unset = -1

func (p *plan) flags(f *pflag.FlagSet) {
	f.StringVar(&p.config, "config", "", "the `file` of rules, in the place of --limit (default: none)")
	f.StringArrayVar(&p.limits, "limit", nil, config.LimitsUsage)
	f.StringVar(&p.listen, "listen", "127.0.0.1:8080", "the `address` to serve on; port 0 takes a free one; empty beside another --…-listen to be no proxy")
	f.StringVar(&p.upstream, "upstream", "", "the `URL` of the service behind, such as http://127.0.0.1:3000, https:// or h2c:// (default: answer with a small JSON)")
	f.StringVar(&p.key, "key", "ip", "the `expression` that tells clients apart: ip, header:NAME, cookie:NAME, path, host, method, joined by +")
	f.StringSliceVar(&p.trusted, "trusted-proxies", nil, "`CIDRs` of the proxies in front whose word on the client's address counts (default: nobody's)")
	f.IntVar(&p.trustedHops, "trusted-hops", unset, "the `number` of proxies in front, 1 to 32, that each add an address (default: as --trusted-proxies tells)")
	f.StringVar(&p.clientIPHeader, "client-ip-header", "", "the `header` in which they put it (default: X-Forwarded-For, once proxies are trusted)")
	f.IntVar(&p.ipv6Prefix, "ipv6-prefix", 56, "how many `bits` of an IPv6 address tell clients apart, 32 to 128")
	f.StringSliceVar(&p.headers, "headers", []string{"draft-8"}, "the RateLimit `fields` to send: draft-8 (also called draft-11), draft-7, draft-6, legacy, legacy-delta, several of them, or none")
	f.StringVar(&p.onStoreError, "on-store-error", "open", "what to do with requests that cannot be decided: open lets them pass, closed answers 503")
	f.StringVar(&p.fallback, "fallback", "none", "what decides while Redis is away: none, or this process by a `share` of each quota such as 1/4, or by replicas: an equal one for each process that lives")
	f.DurationVar(&p.rememberRefusals, "remember-refusals", 0, "how long at most a refusal is given again without asking Redis, 1ms to 1m; 0s for not at all")
	f.IntVar(&p.refusalsMax, "remember-refusals-max", wrap.DefaultMaxDenials, "the most `refusals` to remember, 8 to 16777216")
	f.IntVar(&p.maxKeys, "max-keys", memstore.DefaultMaxKeys, "the most `keys` to keep in memory, 1 to 1073741824; with Redis for --fallback alone")
	f.StringVar(&p.whenFull, "when-full", "forget", "what a new key does when every key still counts: forget the one that would be idle soonest, or refuse to be decided; with Redis for --fallback alone")
	f.StringVar(&p.authListen, "auth-listen", "", "the `address` for proxies that ask before they pass a request on, at /auth (default: none)")
	f.StringVar(&p.authDialect, "auth-dialect", "", "the `proxy` that asks there: "+strings.Join(auth.Dialects(), ", "))
	f.StringSliceVar(&p.authTrusted, "auth-trusted-peers", auth.Loopback, "`CIDRs` of the proxies that may ask there; others get 403")
	f.IntVar(&p.authDenyStatus, "auth-deny-status", http.StatusTooManyRequests, "the `status` of refusals there, 400 to 499: 403 for an nginx that takes no other")
	f.StringVar(&p.apiListen, "api-listen", "", "the `address` for programs that ask in JSON, at /v1/take and beside it (default: none)")
	f.StringVar(&p.apiTokenFile, "api-token-file", "", "the `file` with the bearer token that they must show, which may also be in $"+config.APIToken+" (default: none is needed)")
	f.StringSliceVar(&p.proxyProtocol, "proxy-protocol", nil, "the `flags` of the addresses where connections begin with a PROXY header: "+strings.Join(doorFlags, ", ")+" (default: none)")
	f.StringSliceVar(&p.proxyProtocolFrom, "proxy-protocol-from", auth.Loopback, "`CIDRs` of those who may connect there; others are not heard")
	p.rlsFlags(f)
	p.adminFlags(f)
	p.security.flags(f)
	p.bounds.flags(f)
	f.StringVar(&p.logFormat, "log-format", "text", "how to log: text or json")
	f.DurationVar(&p.readHeaderTimeout, "read-header-timeout", 10*time.Second, "how long a client may take to send its header")
	f.DurationVar(&p.idleTimeout, "idle-timeout", 2*time.Minute, "how long a connection may be idle")
	f.DurationVar(&p.upstreamTimeout, "upstream-timeout", time.Minute, "how long the upstream may take to take the next piece of a body, or to begin its answer")
	f.DurationVar(&p.grace, "grace", 15*time.Second, "how long requests may take to end after SIGTERM")
	for flag, allowed := range words {
		config.TakesWords(f.Lookup(flag), allowed)
	}
	config.TakesWords(f.Lookup("auth-dialect"), auth.Dialects())
}

// filesAndTold are the flags that take a file, or whose values are told already.
var filesAndTold = []string{
	"store-password-file", "api-token-file", "admin-token-file", "audit-log", "rls-config", "config", "store", "client",
	"tls-cert", "tls-key", "tls-client-ca", "upstream-ca",
}

// complete tells shells which values there are.
func complete(cmd *cobra.Command) {
	values := map[string][]string{
		"fallback": {"none", "replicas", "1/2"},

		"headers": {"draft-8", "draft-7", "draft-6", "legacy", "legacy-delta", "none"},
		"key":     {"ip", "header:", "cookie:", "path", "host", "method"},

		"auth-dialect":   auth.Dialects(),
		"proxy-protocol": doorFlags,
		"tls-doors":      doorFlags,
	}
	for flag, allowed := range words {
		values[flag] = allowed
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(filesAndTold, f.Name) {
			return
		}
		// No other flag takes a file. The error is of a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values[f.Name], cobra.ShellCompDirectiveNoFileComp))
	})
}
