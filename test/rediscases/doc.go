// Package rediscases runs, on real servers, the faults that were reported of other rate limiters on
// Redis, and shows what docs/acceptance.md and docs/redis.md promise of ours: each test is named by
// what it says.
package rediscases
