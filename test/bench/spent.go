package bench

import (
	"strconv"
	"strings"
	"time"
)

// Spent is what Redis does for a decision, in numbers that do not depend on the machine.
type Spent struct {
	Scripts  float64 // EVALSHA and EVAL
	Commands float64 // that scripts call
	Bytes    float64 // received and sent
}

// Spend asks a contender calls times, a key of a hundred after the other, with room for all, and splits what was spent. Of up to 5,000
// calls the logs stay so short that it does not matter how many of them fall into one millisecond.
func (r *Redis) Spend(c Contender, calls int) Spent {
	r.flush()
	l := c.Open(1000, time.Minute)
	defer l.Close()
	keys := TenThousand()[:100]
	drive(l, keys, 0, 100) // connections and scripts
	before, commands := r.bill(), r.commands()
	drive(l, keys, 0, calls)
	n, after := float64(calls), r.bill()
	return Spent{
		Scripts:  float64(after.scripts-before.scripts) / n,
		Commands: float64(r.commands()-commands) / n,
		Bytes:    float64(after.bytes-before.bytes) / n,
	}
}

// commands returns how many commands scripts have called since the start.
func (r *Redis) commands() (calls int64) {
	for command, stats := range r.info("commandstats") {
		switch name, _, _ := strings.Cut(strings.TrimPrefix(command, "cmdstat_"), "|"); name {
		case "time", "get", "set", "psetex", "getrange", "setrange", "append", "strlen", "pexpire", "pttl", "del", "mget", "getset", "exists":
			count, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
			n, _ := strconv.ParseInt(count, 10, 64) // INFO says numbers
			calls += n
		}
	}
	return calls
}
