// Package servetest runs the command for tests as its users do: a process of slidegate serve with its
// doors on free ports, which a test can freeze, kill, end and start again.
//
//	binary, remove, err := servetest.Build()
//	replica := servetest.Start(t, binary, "open", "--limit", "100/1m")
//	response, err := http.Get(replica.Door(servetest.Proxy))
//
// A process is gone when its test ends, fails or panics, and on Linux also when the test binary is killed.
package servetest
