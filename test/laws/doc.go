// Package laws has what is promised of a limiter as thirteen properties. Each is played on random plans of one to eight
// limits, with random histories of takes, peeks, refunds, resets, changes of the plan and a clock that goes on and
// back, and on every store: memory, Redis, a cluster, a fallback while its Redis comes and goes, and denials. The
// library rapid draws them, and makes what fails as small as it can.
//
// A law knows no arithmetic of ours. It asks the store twice, or counts by looking at everything that was admitted.
// TestEveryLawCanFail plants a fault for each and sees it found. The page docs/laws.md tells of each law, and
// how to run it for longer.
package laws
