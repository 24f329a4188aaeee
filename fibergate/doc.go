// Package fibergate holds requests to a Fiber (v3) app to a limiter. It is package httpgate as a
// middleware of Fiber: the same options, verdicts, fields and answers.
//
//	app.Use(fibergate.PerIP(slidegate.PerMinute(100)))
//
// A refused request is answered by the gate, and that is no error: no later handler runs, and the
// ErrorHandler is not called. For an admitted one the chain goes on, with whatever error it returns,
// and [FromContext] has the decision. A gate may stand before the whole app, a group or one route;
// one handler that stands in several places has one budget for them together.
//
// # Fiber is not net/http
//
// The gate sees each request as an *http.Request and writes its answer to an http.ResponseWriter, so
// all options are those of package httpgate. What the request shows is copied: fasthttp uses its
// memory again for the next request, and a key must outlive its own. The keys that functions return
// are copied too, as they may be made of what [Context] gives. The request's body, if a function
// reads it, is that of Fiber; one that streams is then read. An answer of the gate itself is sent
// whole, not streamed. fasthttp does not tell when a client hangs up, so the request's context does not
// end then.
//
// With StreamRequestBody, fasthttp takes what nobody has read of a body for the next request. So the
// gate reads up to 256 KiB of the body of a refused request, and has the connection closed if that is
// not all of it, or if the body is chunked. After an admitted request that is the handler's affair.
//
// Fiber has requests whose path begins with no slash, such as GET x HTTP/1.1, pass by whatever stands in app.Use(gate)
// and still finds the routes "/*" and "*" for them. Where there are such routes, put the gate, as
// anything that guards them, into app.Use("*", gate): that sees every request. What is exempt or denied
// goes by the path that Fiber routes by.
//
// # Who is asking
//
// Options of package httpgate take functions of an *http.Request. Behind this gate its Pattern is the
// path of the route that the gate stands in, such as /items/:id, and [Context] returns the fiber.Ctx, with
// its parameters and what earlier handlers have set. Fiber finds routes one by one: a gate in app.Use or in
// a group does not know yet which handler comes, and its Pattern is empty, so that httpgate.ByRoute(nil) counts by the
// client's address there, and warns. To count by route, put the gate into the route, before its handler.
//
// The client's address is found by the rules of package httpgate, not by Fiber's IP: behind a trusted
// proxy that is the whole ProxyHeader, or the first address in it, which whoever sent the request wrote.
// Name the proxies with httpgate.TrustProxies. Requests of app.Test all come from one address,
// 0.0.0.0.
package fibergate
