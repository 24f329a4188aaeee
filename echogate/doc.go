// Package echogate holds requests to an Echo (v5) server to a limiter. It is package httpgate as a
// middleware of Echo: the same options, verdicts, fields and answers.
//
//	e.Use(echogate.PerIP(slidegate.PerMinute(100)))
//
// A refused request is answered by the gate, and that is no error: no later middleware or handler
// runs, and the HTTPErrorHandler is not called. For an admitted one the chain goes on, with whatever
// error it returns, and [FromContext] has the decision. A gate may stand before the whole server, a group
// or one route; one middleware that stands in several places has one budget for them together.
//
// # Who is asking
//
// Options of package httpgate take functions of an *http.Request. Behind this gate its Pattern is the
// route as Echo has it, such as /items/:id, empty where no route fits and in a Pre middleware; so
// httpgate.ByRoute(nil) counts by route. [Context] returns the *echo.Context, with its parameters and what
// earlier middleware has set.
//
// The client's address is found by the rules of package httpgate, not by Echo's RealIP: that is
// whatever the IPExtractor of the server makes of the headers, and LegacyIPExtractor believes
// everybody. Name the proxies with httpgate.TrustProxies. For Echo v4 there is package echov4gate.
package echogate
