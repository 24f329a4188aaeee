//go:build !race

package servetest

// raceFlags let the race detector watch the command where it watches the test.
var raceFlags []string

// Race tells whether the race detector is in this program, and so in the command that Build builds.
const Race = false
