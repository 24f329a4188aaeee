package bench

import "fmt"

// redisTargets are those of scripts and of memory in Redis.
func redisTargets() (all []Target) {
	add := func(part, contender string, most float64) { all = append(all, Target{part, contender, most}) }
	for _, quota := range Quotas() {
		log := fmt.Sprintf("slidegate-log-%d", quota)
		add("redis-allowed", log, 0.9)
		add("redis-denied", log, 0.85)
	}
	add("redis-cost100", "slidegate-log-10000", 0.15)
	add("redis-flat", "slidegate-log-10000-allowed", 1.3)
	add("redis-flat", "slidegate-log-10000-denied", 1.3)
	add("redis-three", "slidegate-3-logs-allowed", 2.2)
	add("redis-three", "slidegate-3-logs-denied", 2.2)

	add("redis-denials", Remembered, 1.0/7)
	add("redis-denials-calls", Remembered, 0.12)

	// Bytes.
	add("redis-memory", "slidegate-log-10", 260)
	add("redis-memory", "slidegate-log-100", 900)
	add("redis-memory", "slidegate-log-1000", 6000)
	add("redis-memory", "slidegate-log-10000", 56_000)
	add("redis-memory", LogOfMinutes, 12_500)
	add("redis-memory", "slidegate-counter", 100)
	add("redis-memory-most", "slidegate-log-1000", 10_500)
	add("redis-memory-most", "slidegate-log-10000", 105_000)
	return all
}

// A LoadTarget is what a figure has to reach: in times that of the rival who is best at it, or, if it is
// Plain, by itself. It is the least where more is better, and else the most.
type LoadTarget struct {
	Part      string
	Contender string
	Figure    *Figure
	Bound     float64
	Plain     bool
	Folds     bool // so many callers wait that several decisions go into one script
}

// Met tells whether a value reaches the bound.
func (t *LoadTarget) Met(value float64) bool {
	if t.Figure.More {
		return value >= t.Bound
	}
	return value <= t.Bound
}

// LoadTargets returns what slidegate aims at through the client that its command uses by default.
func LoadTargets() (all []LoadTarget) {
	add := func(part, contender string, f *Figure, bound float64) {
		folds := part != "redis-1" && (contender == RedisLog || contender == RedisCounter)
		all = append(all, LoadTarget{part, contender, f, bound, f == Scripts || f == Bytes, folds})
	}
	for _, c := range []string{RedisLog, RedisCounter, RedisLogAlone, RedisCounterAlone} {
		add("redis-1", c, PerSecond, 0.95)
		add("redis-1", c, Bytes, 300)
		add("redis-16", c, PerSecond, 1.7)
		add("redis-16", c, P99, 0.6)
		add("redis-16", c, ServerCPU, 0.6)
		add("redis-256", c, ServerCPU, 0.6)
	}
	for _, c := range []string{RedisLog, RedisCounter} {
		add("redis-256", c, PerSecond, 4)
	}
	for _, c := range []string{RedisLogAlone, RedisCounterAlone} {
		add("redis-256", c, PerSecond, 2.3)
		add("redis-16", c, Scripts, 1)
	}
	return all
}

// FloorOfLoad returns the floor under a target of a load: what sends its scripts as the contender does, and stores at least
// what its algorithm has to.
func FloorOfLoad(t *LoadTarget) Floor {
	name, does := FloorName, "a script that only reads the clock, reads the key and writes it"
	alone := FloorAloneName
	if t.Contender == RedisLog || t.Contender == RedisLogAlone {
		name, alone, does = FloorLogName, FloorLogAloneName, does+" and a byte more"
	}
	if t.Folds {
		return Floor{name, does + ", for all that wait,"}
	}
	return Floor{alone, does}
}
