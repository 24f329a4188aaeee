// Package redistest gives tests real Redis servers, and ways to let them fail: standalone, a cluster
// of three, a primary with a replica, with a sentinel that promotes it, and a proxy that cuts,
// delays, refuses or swallows what passes.
//
//	server := redistest.Standalone(t)
//	proxy := redistest.NewProxy(t, server.Addr)
//	proxy.CutReply("evalsha", 1)
//
// Every server listens on 127.0.0.1 alone, on ports that nobody else who uses this package can get
// while the test runs, also not while the server is stopped. It is gone when the test ends, fails
// or panics, with its directory, and also when the test binary is killed.
//
// The server is what SLIDEGATE_REDIS_SERVER names, else redis-server, else valkey-server in PATH.
// Without any of them the test fails.
//
// Calls of a [Server] that cannot be done fail the test, so they belong in the test's own
// goroutine; [Server.Try] and [Conn.Do] return an error instead and may be called from any.
package redistest
