// Package window is the arithmetic of sliding windows: integers in, integers out. It has no
// clock, no lock and no I/O; times are milliseconds since the Unix epoch.
//
// The sliding log is exact. A charge recorded at e counts at t while t - e < span, and is gone
// exactly at e + span. The sliding counter weighs two aligned windows; [Counter] has its steps.
package window

// Counts tells whether a charge recorded at e counts at now.
func Counts(e, now, span int64) bool { return now-e < span }

// Record returns the time under which a log records a charge: now rounded up to a multiple of
// the resolution, but never before the newest charge that is held, so recorded time never runs back.
func Record(now, resolution, newest int64, held bool) int64 {
	t := now
	if resolution > 1 {
		t = Ceil(now, resolution)
	}
	if held && newest > t {
		return newest
	}
	return t
}
