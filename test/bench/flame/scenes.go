package main

import (
	"github.com/slidegate/slidegate/test/bench"
)

// A scene is a limiter that is asked.
type scene struct {
	name, title string
	root        string // the function, or a part of its name, at which stacks begin
	open        func() (ask, stop func())
}

// scenes are those where another limiter takes less time.
func scenes() []scene {
	return []scene{
		{"uniform", "Take of a sliding log, a million keys in turn", "slidegate.(*Limiter).Take", inMemory("uniform", 1)},
		{"one-key", "Take of a sliding log, sixteen callers of one key", "slidegate.(*Limiter).Take", inMemory("hot1", 16)},
		{"http", "httpgate in ServeHTTP, a sliding log, two fields, the decision in the context", "httpgate.", middleware(bench.LogDraft8)},
	}
}

// inMemory is our log in a workload of so many callers.
func inMemory(name string, callers int) func() (ask, stop func()) {
	return func() (ask, stop func()) {
		w, c := bench.FindWorkload(name), bench.Find(bench.LogTake)
		w.Callers = callers
		l := w.Prepare(&c)
		return func() { w.Run(l, w.Calls/4) }, l.Close
	}
}

// middleware is one of ours, asked by a client who may ask as often as it likes.
func middleware(name string) func() (ask, stop func()) {
	return func() (ask, stop func()) {
		crowd := &bench.Crowds()[0]
		for _, m := range bench.Middlewares() {
			if m.Name == name {
				s := crowd.Serve(&m)
				return func() { s.Ask(100_000) }, s.Stop
			}
		}
		panic("flame: no middleware " + name)
	}
}
