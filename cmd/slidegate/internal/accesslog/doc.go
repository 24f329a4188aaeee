// Package accesslog reads the logs of servers and gives back requests.
//
// [Open] looks at the files: it tells how each is written and packed, and puts them in the order of
// their first times. [Log.Read] then reads them once, from front to back: lines are taken apart in
// several goroutines, and what comes of them arrives in one, in the order of the log.
//
// What is made of a line is for the caller to say, as a [Subject]: a function that sees the
// [Record] and appends what the request counts as. The key of a limit is one; the list of rules that a
// request meets, with a key for each, is another; whatever it is, it is bytes, so that package
// timeline can number the distinct ones and hold millions of events in little memory:
//
//	log, err := accesslog.Open(accesslog.Options{Files: files, Stdin: os.Stdin})
//	...
//	err = log.Read(ctx, func() accesslog.Subject {
//		var request http.Request // one for each goroutine, used again for each line
//		return func(r *accesslog.Record, b []byte) ([]byte, error) {
//			r.Fill(&request)
//			return append(b, expr.Key(&request, string(r.Address))...), nil
//		}
//	}, func(e *accesslog.Entry) error {
//		... // in the order of the log
//	})
//
// Who needs the order of time reads through package timeline, which is built on this one.
package accesslog
