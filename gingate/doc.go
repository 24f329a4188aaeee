// Package gingate holds requests to a gin router to a limiter. It is package httpgate as a
// middleware of gin: the same options, verdicts, fields and answers.
//
//	router.Use(gingate.PerIP(slidegate.PerMinute(100)))
//
// A refused request is answered and the chain aborted: no later handler runs. For an admitted one the
// chain goes on, and [FromContext] has the decision. A gate may stand before the whole router, a
// group or one route; one handler that stands in several places has one budget for them together.
//
// # Who is asking
//
// Options of package httpgate take functions of an *http.Request. Behind this gate its Pattern is the
// route as gin has it, such as /items/:id, empty where no route fits; so httpgate.ByRoute(nil) counts by
// route. [Context] returns the *gin.Context, with its parameters and what handlers before have set.
//
// The client's address is found by the rules of package httpgate, not by gin's ClientIP: gin believes
// the X-Forwarded-For of everybody until SetTrustedProxies is called, so that anybody could be
// anybody. Name the proxies with httpgate.TrustProxies.
package gingate
