// Package caddy drives a real Caddy with module caddygate over HTTP: the program in caddygate/cmd/caddy, built
// once, started with a Caddyfile, reloaded through its admin API, and stopped.
package caddy
