package caddygate

import (
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("slidegate", parseCaddyfile)
	// Before who asks is verified, since verifying costs most; where the key is who was verified, the site
	// says: order slidegate after basic_auth.
	httpcaddyfile.RegisterDirectiveOrder("slidegate", httpcaddyfile.Before, "basic_auth")
}

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	return handler, handler.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler]. The syntax is
//
//	slidegate [<matcher>] {
//		zone          <name>
//		limit         <limit...>
//		key           <part...>
//		secret        <text>
//		cost          <number>|<placeholder>
//		ipv6_prefix   <bits>
//		headers       draft-8|draft-7|draft-6|legacy|legacy-delta|none...
//		deny          <status> [<body>]
//		fail          open|closed
//		ban           <strikes> <length>
//		shadow
//		handle_errors
//		store memory {
//			max_keys <number>
//		}
//		store <redis-url> {
//			username <text>
//			password <text>
//			prefix   <text>
//			timeout  <duration>
//		}
//	}
//
// Each but limit is given once at most, and all but limit may be left out.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	given := map[string]bool{}
	for d.NextBlock(0) {
		name := d.Val()
		if given[name] && name != "limit" {
			return d.Errf("%s is given twice", name)
		}
		given[name] = true
		if err := h.subdirective(d, name); err != nil {
			return err
		}
		if err := h.checkBlock(given["limit"]); err != nil {
			return d.WrapErr(err)
		}
	}
	if err := h.checkBlock(true); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// checkBlock says what is wrong so far, so that the error names the line that it is on. Limits may
// still come.
func (h *Handler) checkBlock(hasLimits bool) error {
	so := *h
	if !hasLimits {
		so.Limits = []string{"1/s"}
	}
	_, _, err := so.parse()
	return err
}

// subdirective reads one, of which the name has been read.
func (h *Handler) subdirective(d *caddyfile.Dispenser, name string) error {
	switch name {
	case "zone":
		return text(d, &h.Zone)
	case "limit":
		return texts(d, &h.Limits)
	case "key":
		return texts(d, &h.Key)
	case "secret":
		return text(d, &h.Secret)
	case "cost":
		return text(d, &h.Cost)
	case "ipv6_prefix":
		return number(d, &h.IPv6Prefix)
	case "headers":
		return texts(d, &h.Headers)
	case "deny":
		return h.parseDeny(d)
	case "fail":
		return text(d, &h.Fail)
	case "ban":
		return h.parseBan(d)
	case "shadow":
		return flag(d, &h.Shadow)
	case "handle_errors":
		return flag(d, &h.HandleErrors)
	case "store":
		h.Store = new(Store)
		return h.Store.parse(d)
	}
	return d.Errf("unknown subdirective %q: allowed are zone, limit, key, secret, cost, ipv6_prefix, headers, deny, fail, ban, shadow, handle_errors and store", name)
}

func (h *Handler) parseDeny(d *caddyfile.Dispenser) error {
	h.Deny = new(Deny)
	if !d.NextArg() {
		return d.ArgErr()
	}
	status, err := strconv.Atoi(d.Val())
	if err != nil {
		return d.Errf("deny %q: allowed is a status of 400 to 599, and a body behind it", d.Val())
	}
	h.Deny.Status = status
	if d.NextArg() {
		h.Deny.Body = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

func (h *Handler) parseBan(d *caddyfile.Dispenser) error {
	h.Ban = new(Ban)
	length := ""
	if !d.AllArgs(&h.Ban.Strikes, &length) {
		return d.ArgErr()
	}
	duration, err := caddy.ParseDuration(length)
	if err != nil {
		return d.Errf("ban for %q: allowed is a duration such as 1h, of 1ms to 3650d", length)
	}
	h.Ban.Length = caddy.Duration(duration)
	return nil
}

// parse reads a store: its address, and a block.
func (s *Store) parse(d *caddyfile.Dispenser) error {
	if err := text(d, &s.URL); err != nil {
		return err
	}
	given := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if given[name] {
			return d.Errf("store: %s is given twice", name)
		}
		given[name] = true
		if err := s.subdirective(d, name); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func (s *Store) subdirective(d *caddyfile.Dispenser, name string) error {
	switch name {
	case "max_keys":
		return number(d, &s.MaxKeys)
	case "username":
		return text(d, &s.Username)
	case "password":
		return text(d, &s.Password)
	case "prefix":
		return text(d, &s.Prefix)
	case "timeout":
		var written string
		if err := text(d, &written); err != nil {
			return err
		}
		timeout, err := caddy.ParseDuration(written)
		if err != nil || timeout < time.Millisecond {
			return d.Errf("store: timeout %q: allowed is 1ms to 1m", written)
		}
		s.Timeout = caddy.Duration(timeout)
		return nil
	}
	return d.Errf("store: unknown subdirective %q: allowed are max_keys, username, password, prefix and timeout", name)
}

// flag reads a line without arguments.
func flag(d *caddyfile.Dispenser, to *bool) error {
	if *to = true; d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// text reads the one argument of a line, which is not empty.
func text(d *caddyfile.Dispenser, to *string) error {
	if !d.AllArgs(to) || *to == "" {
		return d.ArgErr()
	}
	return nil
}

// texts reads the arguments of a line, one at least, behind those there are.
func texts(d *caddyfile.Dispenser, to *[]string) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	*to = append(*to, args...)
	return nil
}

// number reads the one argument of a line, a whole number from 1.
func number(d *caddyfile.Dispenser, to *int) error {
	name, written := d.Val(), ""
	if err := text(d, &written); err != nil {
		return err
	}
	n, err := strconv.Atoi(written)
	if err != nil || n < 1 {
		return d.Errf("%s %q: allowed is a whole number from 1", name, written)
	}
	*to = n
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
