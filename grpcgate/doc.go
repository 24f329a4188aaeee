// Package grpcgate holds gRPC servers and clients to a limiter.
//
//	server := grpc.NewServer(grpcgate.PerIP(slidegate.PerMinute(100))...)
//
// [PerIP] is the one-liner. [New] takes a limiter, with up to eight limits over any store, and options;
// [Gate.Unary] and [Gate.Stream] are then the interceptors, and [Gate.ServerOptions] is both.
//
// # What a call meets
//
// A gate asks what package httpgate asks about an HTTP request, by the same code, so both give the
// same verdicts over one store: whether to skip the call, which limiter is its plan, what it costs and
// who is asking, and then the limiter. An admitted call runs the handler, with the decision in its
// context ([FromContext]). A refused one gets RESOURCE_EXHAUSTED with two details: a RetryInfo whose delay
// is true to the millisecond, and a QuotaFailure that names the limits that refused. A call that
// could not be decided runs the handler, unless the gate fails closed: then it gets UNAVAILABLE. A cost
// that can never fit is a refusal without RetryInfo, however the gate fails. Health checks are not
// counted ([Exempt]).
//
// A stream is charged when it opens, or for every message that it receives ([PerMessage]).
//
// # Metadata
//
// The fields ratelimit and ratelimit-policy have the text that HTTP has, and retry-after in whole seconds
// goes with them on a refusal. Those of a call that succeeds are in its header, those of a stream
// from the first message that it sends on. All others are in the trailer, and nothing is in the header
// then: clients of grpc-go retry only calls whose answer is nothing but a trailer, and a gate must not
// take their retries away, neither of what it refuses nor of what the handler fails with. [Pushback] tells
// such clients when to retry. Several gates each add their fields, which in httpgate.Draft8 are lists; let
// one alone send formats whose fields hold one value.
//
// # Who is asking
//
// By default it is who connects: an IPv4 address by itself, an IPv6 address by its network of 56
// bits. Behind a proxy all callers are then one, of which the logger is told; say which proxies
// are believed with [With] and httpgate.TrustProxies. A call whose key cannot be told counts under its
// address. One without any address, through a Unix socket, is never let through uncounted: it gets
// INTERNAL.
//
// # Clients
//
// [Client] holds outgoing calls to a limiter, and waits or refuses without sending them.
// [Patience] keeps calls back for as long as a server has asked for.
package grpcgate
