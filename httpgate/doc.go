// Package httpgate holds net/http requests to a limiter.
//
//	http.ListenAndServe(":8080", httpgate.PerIP(slidegate.PerMinute(100))(mux))
//
// [PerIP] is the one-liner. [New] takes a limiter, with up to eight limits over any store, and
// options; [Gate.Wrap] is then the middleware.
//
// # What a request meets
//
// A gate looks whether the request is on one of its lists ([Deny], [Exempt]), whether it is a CORS
// preflight or to be skipped, which limiter is its plan, what it costs and who is asking, and then asks
// the limiter. An admitted request runs the next handler, once, with the decision
// in its context ([FromContext]). A refused one is answered with status 429, a Retry-After that is
// true, and a body of application/problem+json or plain text, whichever the client accepts. A request
// that could not be decided runs the next handler, unless the gate fails closed: then it is a 503.
// A cost that can never fit is a refusal without Retry-After, however the gate fails.
//
// What follows the verdict is up to options: [RefundIf] gives the charge back by the status of the answer,
// [Settle] corrects it, [Ban] holds refusals against the key, and [Shadow] lets all pass and only tells.
//
// The fields are those of [Draft8] unless [Headers] chooses others. They are set before the next
// handler runs and the ResponseWriter is not wrapped, save by RefundIf, so flushing, hijacking and
// HTTP/2 are as they were. Values that are the same for every response are shared between responses: code that changes
// a header field in place, rather than through Set or Add, must not do so with these. Browsers
// show the fields to scripts of another origin, and the status of a refusal, only if a CORS layer outside
// the gate lists them, as in the example of [Gate.Wrap]:
//
//	Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
//
// # Who is asking
//
// By default it is who connects, and no header is read: behind a proxy all clients are then one,
// of which the logger is told. [TrustProxies] or [TrustHops] say which proxies are believed, and
// [ClientIPHeader] in which header. The header is read from its end, which the proxies wrote, and
// never further to its beginning, which anybody can write, than the first address that is not a
// proxy's. An IPv4 address counts by itself, an IPv6 address by its network of 56 bits ([IPv6Prefix]).
//
// Keys of [ByHeader], [ByCookie], [ByClaim], [ByValue], [ByRoute] and of addresses carry their kind, so none can
// spend the quota of another, and [ByAll] joins several so that no two combinations meet. A request whose
// key cannot be told counts under its address. One without any address, through a Unix socket, is never
// let through uncounted: see [ErrNoAddress]. [Secret] keeps API keys and cookies from the store.
//
// # Where to put it
//
// Count by route with [ByRoute], or put the gate behind the router, where a request has found its
// handler: either way no spelling of a path has a bucket of its own. Put a gate that counts by a verified
// identity behind what verifies it, and one by address around that:
//
//	byAddress.Wrap(authenticate(byUser.Wrap(mux)))
//
// An identity that nothing verifies, such as a header's value, can be made up for every request. With the
// outer limit that buys nothing; what the outer gate admitted and the inner refused stays charged.
//
// # The other side
//
// [Transport] is for clients: it reads what a server says of its limits, in each of these formats and many
// that others send, and holds requests back until there is room. [Outgoing] holds a program's own requests
// to a limiter.
//
//	client := &http.Client{Transport: httpgate.MustNewTransport(nil)}
//
// # Misuse
//
// What a gate can see of its own misuse it tells its [Logger] once, with the address of a page in
// docs/warnings: a forwarding header though no proxy is trusted, all clients under one key, a key that
// never comes, a limiter applied twice, costs below zero, requests that pass while the store is away.
package httpgate
