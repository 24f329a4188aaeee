// Package httpgatetest is for those who write a gate for a web framework: the laws that every gate
// over HTTP keeps, whatever serves the requests.
//
// # To write a gate
//
// Give the suite a function that starts a real server of the framework, with your gate where the
// [App] wants one and handlers written as the framework's users write theirs:
//
//	func TestGate(t *testing.T) {
//		httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string {
//			router := framework.New()
//			for _, g := range app.All {
//				router.Use(mygate.MustNew(g.Limiter, g.Options...))
//			}
//			router.GET("/hello", func(c *framework.Context) { c.Bytes(200, httpgatetest.Text, app.Hello()) })
//			…
//			return address
//		})
//	}
//
// Every subtest is a [Law], named by what it says. Each serves the same app twice, by net/http with
// package httpgate and by the framework, sends both the same bytes over sockets, with one clock for
// the stores of both, and compares what comes back: status, header fields, body, and how often a
// handler ran. What the answer has to be is written in the law as well, so two gates that are wrong
// in the same way do not pass.
//
// # What is compared
//
// All header fields, every line of each, in order, but for those that are the server's own: Date is
// the real time, Server is its name, and Connection and Keep-Alive are how it treats the connection. Which
// letters of a field's name are capital means nothing in HTTP, so that is not compared either. What a
// panicking handler is answered with is the framework's affair; what it was charged is not.
package httpgatetest
