package main

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/test/bench"
)

const redisKeys = 8

// redisQuota measures full logs of a quota, and counters that are half full: their room comes and goes with the window.
func redisQuota(algorithm slidegate.Algorithm, admit bool) func(int) (func() (float64, error), func()) {
	return func(quota int) (func() (float64, error), func()) {
		return sliding(quota, admit, limitsOf(1, algorithm, int64(quota), time.Hour))
	}
}

func redisLimits(algorithm slidegate.Algorithm, admit bool) func(int) (func() (float64, error), func()) {
	return func(n int) (func() (float64, error), func()) {
		return sliding(100, admit, limitsOf(n, algorithm, 100, time.Hour))
	}
}

// sliding fills limits of a quota with as many charges in an hour, and returns what a decision costs the server.
func sliding(quota int, admit bool, limits []slidegate.Limit) (func() (float64, error), func()) {
	r, keys := redis(), redisKeys
	if quota > 10_000 {
		keys = 1 // to fill takes long, and is not what is measured
	}
	if limits[0].Algorithm == slidegate.SlidingCounter {
		for i := range limits {
			limits[i].Quota *= 2
		}
	}
	prefix := fmt.Sprintf("curves-%d-%d-%s-%t", quota, len(limits), limits[0].Algorithm, admit)
	s := bench.NewSliding(r, bench.Ours(r, prefix, limits...), time.Hour, quota, 1, keys).Fill(1)
	return func() (float64, error) { return s.Processor(admit, calls/25), nil }, s.Remove
}
