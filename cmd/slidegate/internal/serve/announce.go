package serve

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// A fact is what the start says about one thing.
type fact struct{ about, text string }

// announce says where it listens, what is limited, how clients are told apart, and what happens
// without the store: as text, or as one object where the log is JSON.
func (s *server) announce(doors []*door) {
	at := map[string]net.Addr{}
	for _, d := range doors {
		at[d.flag] = d.listener.Addr()
	}
	url := doors[0].url()
	facts := s.facts(at)
	if s.logFormat == "json" {
		attributes := []any{"url", url}
		for _, f := range facts {
			attributes = append(attributes, f.about, f.text)
		}
		s.log.Info("listening", attributes...)
	} else {
		text := "slidegate: listening on " + url + "\n"
		for _, f := range facts {
			text += fmt.Sprintf("  %-9s %s\n", f.about, strings.ReplaceAll(f.text, "\n", "\n            "))
		}
		fmt.Fprint(s.stderr, text)
	}
	if s.live == nil && s.gatesRequests() && !s.key.TellsClients() {
		s.log.Warn("the key has no client in it: all clients share one quota", "key", s.key.String())
	}
	for _, d := range doors {
		if d.flag == "api-listen" && !s.hasToken && !isLoopback(d.listener.Addr()) {
			s.log.Warn("--api-listen can be reached from other machines, and whoever reaches it may spend and reset every key: listen on a loopback address, or give --api-token-file")
		}
	}
}

func (s *server) facts(at map[string]net.Addr) (facts []fact) {
	if s.usesLimits() {
		facts = s.limitFacts()
	}
	facts = append(append(facts, fact{"store", s.backend.about}), s.backend.facts...)
	if s.upstream != nil {
		facts = append(facts, fact{"upstream", s.upstream.String()})
	}
	if auth := at["auth-listen"]; auth != nil {
		facts = append(facts, fact{"auth", fmt.Sprintf("%s://%s/auth for %s, refusals are %d; %s may ask", s.scheme("auth-listen"), auth, s.authDialect, s.authDenyStatus, strings.Join(s.authTrusted, ", "))})
	}
	if api := at["api-listen"]; api != nil {
		facts = append(facts, fact{"api", fmt.Sprintf("%s://%s/openapi.json says what may be asked; %s", s.scheme("api-listen"), api, s.whoMayAsk())})
	}
	if s.certificates != nil {
		facts = append(facts, s.tlsFact())
	}
	if len(s.proxyProtocol) > 0 {
		facts = append(facts, fact{"proxied", fmt.Sprintf("only %s may connect to --%s, and say in a PROXY header for whom",
			strings.Join(s.proxyProtocolFrom, ", "), strings.Join(s.proxyProtocol, " and --"))})
	}
	facts = append(facts, s.rlsFacts(at)...)
	if admin := at["admin"]; admin != nil {
		facts = append(facts, s.adminFact(admin))
	}
	if front := at["listen"]; front != nil && s.upstream == nil {
		facts = append(facts, fact{"try", s.tryText(front)}, fact{"read on", "docs/command.md"})
	}
	return facts
}

// tryText is a command that gets an answer.
func (s *server) tryText(front net.Addr) string {
	options := "-i"
	if slices.Contains(s.proxyProtocol, "listen") {
		options += " --haproxy-protocol"
	}
	return fmt.Sprintf("curl %s %s://%s/", options, s.scheme("listen"), reachable(front))
}

// limitFacts are about what is held to --limit or to rules.
func (s *server) limitFacts() []fact {
	undecided := map[string]string{"open": "pass", "closed": "get 503"}[s.onStoreError]
	clients := fmt.Sprintf("told apart by %s; %s", s.key, s.addressRule())
	failing := fmt.Sprintf("%s: requests that cannot be decided %s", s.onStoreError, undecided)
	if !s.gatesRequests() {
		clients, failing = "told apart by whoever asks", "whoever asks gets 503 for what cannot be decided"
	}
	return []fact{s.limitFact(), {"clients", clients}, {"failing", failing}}
}

// limitFact says what is limited.
func (s *server) limitFact() fact {
	if s.live != nil {
		f := s.live.Engine().File()
		return fact{"rules", fmt.Sprintf("%s: %s", f.Name, f.Summary())}
	}
	names := make([]string, len(s.limits))
	for i, l := range s.limits {
		names[i] = l.String()
	}
	return fact{"limits", strings.Join(names, " and ") + ": all are charged or none"}
}

// reachable is an address to connect to where at is every address of the machine.
func reachable(at net.Addr) string {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return at.String()
}

func isLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (s *server) addressRule() string {
	header := s.clientIPHeader
	if header == "" {
		header = "X-Forwarded-For"
	}
	from := ""
	if len(s.trusted) > 0 {
		from = " from " + strings.Join(s.trusted, ", ")
	}
	switch {
	case s.trustedHops > 0:
		return fmt.Sprintf("addresses are those in %s%s, number %d from the right", header, from, s.trustedHops)
	case from != "":
		return fmt.Sprintf("addresses are those in %s%s", header, from)
	}
	return "addresses are those who connect, whatever they say"
}
