// Package connectgate holds servers and clients of Connect to a limiter, for the Connect protocol,
// gRPC and gRPC-Web alike.
//
//	path, handler := pingv1connect.NewPingServiceHandler(server,
//		connect.WithInterceptors(connectgate.PerIP(slidegate.PerMinute(100))))
//
// [PerIP] is the one-liner. [New] takes a limiter, with up to eight limits over any store, and
// options; the gate is then the interceptor.
//
// # What a call meets
//
// A gate asks what package httpgate asks about an HTTP request, by the same code, so both give the
// same verdicts over one store: whether to skip the call, which limiter is its plan, what it costs and
// who is asking, and then the limiter. An admitted call runs the handler, with the decision in its
// context ([FromContext]). A refused one gets resource_exhausted, which is status 429 in the Connect protocol,
// with two details: a RetryInfo whose delay is true to the millisecond, and a QuotaFailure that names
// the limits that refused. A call that could not be decided runs the handler, unless the gate fails
// closed: then it gets unavailable. A cost that can never fit is a refusal without RetryInfo, however
// the gate fails. Health checks are not counted ([Exempt]).
//
// A stream is charged when it opens, or for every message that it receives ([PerMessage]). A unary call
// is charged when its message has been read.
//
// # Metadata
//
// The fields RateLimit and RateLimit-Policy, and Retry-After on a refusal, have the text that package
// httpgate gives them. They are in the header of a call that was admitted, and in the metadata of the
// error (connect.Error.Meta) of one that was refused: the HTTP header of a unary call of the Connect
// protocol, the trailer of gRPC and of streams. Browsers show them to scripts of another origin only if
// the CORS layer lists them in Access-Control-Expose-Headers. Servers of Connect answer a gRPC call
// with a header and a trailer, and clients of grpc-go retry only what comes as a trailer alone: let such
// clients retry by themselves. Several gates each add their fields, which in httpgate.Draft8 are lists;
// let one alone send formats whose fields hold one value.
//
// # Who is asking
//
// By default it is who connects: an IPv4 address by itself, an IPv6 address by its network of 56
// bits. Behind a proxy all callers are then one, of which the logger is told; say which proxies
// are believed with [With] and httpgate.TrustProxies. A call whose key cannot be told counts under its
// address. One without any address, through a Unix socket, is never let through uncounted: it gets
// internal.
//
// # Clients
//
// [Client] holds outgoing calls to a limiter, and waits or refuses without sending them.
package connectgate
