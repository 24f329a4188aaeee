// Package caddygate holds the requests of a Caddy server to a limiter: it is the Caddy module
// http.handlers.slidegate, and the directive slidegate of the Caddyfile.
//
//	example.com {
//		slidegate {
//			limit burst=10/1s sustained=100/1m
//		}
//		reverse_proxy 127.0.0.1:9000
//	}
//
// Everything that decides is that of package httpgate: the verdict, the fields, the answer. Caddy
// brings the configuration, the placeholders that keys and costs are made of, and the life of the stores. A
// program that serves with net/http needs none of this: it takes httpgate.
//
// # How to get it
//
// A Caddy with this module is built by importing the package beside Caddy's own modules, as the
// program in cmd/caddy does, or with xcaddy. docs/caddy.md says how, and explains every setting.
//
// # Who is asking
//
// By default it is the client's address as Caddy knows it, the placeholder {client_ip}: who connects, or whom
// the server's trusted_proxies speak for. The option trusted_proxies_strict belongs with it: without it
// Caddy believes the left-most address of X-Forwarded-For, which a client can write itself where the
// proxy appends to what it gets. An IPv6 address counts by its network of 56 bits.
//
// A key is one or several parts of text and placeholders. Parts are joined so that no two lists of
// parts are the same key, and a key carries what it was made of, so no value of one can spend the quota
// of another. A request for which a placeholder has no value counts under its address: it is never unlimited,
// and never in one bucket with everybody.
//
// # What outlives a configuration
//
// Caddy replaces its whole configuration at every change. The memory of a zone stays as long as a
// configuration follows that has a handler of the same zone and store, and so does the connection to a
// Redis. Quotas may change meanwhile: a limit with a name keeps its history. What nobody uses any more is
// closed.
package caddygate
