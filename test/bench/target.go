package bench

// A Target is the most that a measurement may be, in times another of the same run or as a count.
type Target struct {
	Part      string
	Contender string
	Most      float64
}

// Targets returns what slidegate aims at. Those of time are in times the baseline; of part "three"
// in times our limiter of one limit; of "quota" a quota of a million in times one of ten; of HTTP in
// times the best rival, what is added where the request is allowed and the whole where it is denied or goes over a
// socket; of doors in times a bare server of net/http, or envoyproxy/ratelimit; of logs in times awk;
// of scripts in Redis in times a sorted set, of "redis-denials" the same without its memory, of "redis-flat" a quota of ten, of "redis-three" one limit.
func Targets() []Target {
	return append(redisTargets(), []Target{
		{"hot1", LogTake, 1.0}, {"hot1", CounterTake, 1.0}, {"hot1", LogAllow, 0.75}, {"hot1", CounterAllow, 0.65},
		{"hot2", LogTake, 1.1}, {"hot2", CounterTake, 0.9},
		{"uniform", LogTake, 1.1}, {"uniform", CounterTake, 0.8}, {"uniform", LogAllow, 1.05}, {"uniform", CounterAllow, 0.7},
		{"zipf100", LogTake, 1.1}, {"zipf100", CounterTake, 0.8},
		{"zipf1m", LogTake, 1.1}, {"zipf1m", CounterTake, 0.8},
		{"denied1", LogTake, 0.95}, {"denied1", CounterTake, 0.95}, {"denied1", LogAllow, 0.7}, {"denied1", CounterAllow, 0.65},
		{"denied2", LogTake, 0.95}, {"denied2", CounterTake, 0.95}, {"denied2", LogAllow, 0.7}, {"denied2", CounterAllow, 0.65},
		{"three", Log3Take, 2.2}, {"three", Counter3Take, 2.2}, {"three", Mixed3Take, 2.2},
		{"quota", LogTake, 1.2}, {"quota", CounterTake, 1.2},
		{"http-allowed", LogDraft8, 0.6}, {"http-allowed", CounterDraft8, 0.6},
		{"http-allowed", LogApart, 0.25}, {"http-allowed", CounterApart, 0.25},
		{"http-denied", LogDraft8, 0.5}, {"http-denied", CounterDraft8, 0.5},
		{"http-socket", LogDraft8, 1}, {"http-socket", CounterDraft8, 1}, {"http-socket", LogApart, 1},
		{"heap", LogTake, 0.9}, {"heap", CounterTake, 0.6}, // in times the baseline
		{"idle", LogTake, 0.02}, {"idle", CounterTake, 0.02}, // share of the heap
		{"entry", LogTake, 9},                                                      // bytes
		{"http-allocations", LogDraft8, 4}, {"http-allocations", CounterDraft8, 4}, // a request
		{"http-allocations", LogApart, 1}, {"http-allocations", CounterApart, 1},
		{"logs", Replay, 1.5},
		{"doors-auth", AuthDoor, 1 / 0.8}, {"doors-json", JSONDoor, 1 / 0.8}, // 0.8 times as many requests a second
		{"doors-rls", RLSDoor, 1.0 / 3}, {"doors-rls", RLSRedis, 1 / 1.2},
	}...)
}

// Most returns the target of a part and a contender, and whether there is one.
func Most(part, contender string) (most float64, ok bool) {
	for _, t := range Targets() {
		if t.Part == part && t.Contender == contender {
			return t.Most, true
		}
	}
	return 0, false
}
