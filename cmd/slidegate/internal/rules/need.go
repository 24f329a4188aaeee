package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
)

// A Need is a part of requests that rules ask for. Where a log does not have it, its requests are held to the rules as
// requests without it would be.
type Need struct {
	Part string   // host, method, status, header:NAME or cookie:NAME
	For  []string // what asks, such as "the key of login"
}

// String says what it is, and what asks for it.
func (n Need) String() string {
	kind, name, ok := strings.Cut(n.Part, ":")
	if ok {
		return fmt.Sprintf("the %s %s: %s", kind, name, strings.Join(n.For, ", "))
	}
	return fmt.Sprintf("the %s: %s", n.Part, strings.Join(n.For, ", "))
}

// Needs returns what the rules of a file ask of requests beside their address and their path in a fixed order. key is what rules without one have.
func (f *File) Needs(key *keyexpr.Expr) (all []Need) {
	n := needs{}
	for _, name := range sortedNames(f.Domains) {
		n.add("host", "the hosts of the domain "+string(name))
	}
	for _, entry := range slices.Concat(f.Exempt, f.Deny) {
		if strings.Contains(string(entry), " ") && !strings.HasPrefix(string(entry), "/") { // METHOD /path
			n.add("method", "exempt and deny")
		}
	}
	for _, r := range f.All() {
		if r.Mode != Off {
			n.rule(r, key)
		}
	}
	return n.all
}

// needs are parts that are asked for, each once.
type needs struct{ all []Need }

func (n *needs) add(part, use string) {
	i := slices.IndexFunc(n.all, func(other Need) bool { return other.Part == part })
	if i < 0 {
		n.all = append(n.all, Need{Part: part})
		i = len(n.all) - 1
	}
	if !slices.Contains(n.all[i].For, use) {
		n.all[i].For = append(n.all[i].For, use)
	}
}

func (n *needs) rule(r *Rule, key *keyexpr.Expr) {
	if r.Key != nil {
		key = r.Key.Expr
	}
	of := func(what string) string { return what + " of " + r.FullName() }
	if len(r.Hosts) > 0 {
		n.add("host", of("a condition"))
	}
	if len(r.Methods) > 0 {
		n.add("method", of("a condition"))
	}
	for _, name := range sortedNames(r.RequestHeaders) {
		n.add("header:"+string(name), of("a condition"))
	}
	for _, part := range key.Parts() {
		if part != "ip" && part != "path" {
			n.add(part, of("the key"))
		}
	}
	if r.Cost != nil && r.Cost.header != "" {
		n.add("header:"+r.Cost.header, of("the cost"))
	}
	if r.PlanBy != nil {
		n.add("header:"+string(*r.PlanBy), of("plan-by"))
	}
	if len(r.RefundIf) > 0 {
		n.add("status", of("refund-if-status"))
	}
}
