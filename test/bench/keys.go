package bench

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"unsafe"
)

// ManyKeys is how many keys the workloads of many keys draw from.
const ManyKeys = 1_000_000

func appendKey(b []byte, i int) []byte {
	return strconv.AppendInt(append(b, "user:"...), int64(i)+1_000_000_000, 10)
}

// Key returns the i-th key in memory of its own, as a request brings it.
func Key(i int) string { return string(appendKey(nil, i)) }

// draws are keys in the order in which they are asked for, one behind the other in memory, so that
// reading the next one costs a limiter no cache miss that is the harness's.
func draws(n int, next func() int) []string {
	var text []byte
	ends := make([]int, n)
	for i := range n {
		text = appendKey(text, next())
		ends[i] = len(text)
	}
	keys, from := make([]string, n), 0
	for i, to := range ends {
		keys[i] = unsafe.String(&text[from], to-from)
		from = to
	}
	return keys
}

const seed = 20261130

// Uniform returns every one of the many keys once, shuffled.
var Uniform = sync.OnceValue(func() []string {
	order, i := rand.New(rand.NewPCG(seed, 1)).Perm(ManyKeys), -1
	return draws(ManyKeys, func() int { i++; return order[i] })
})

// Zipf returns as many draws of the many keys with popularity falling as rank^-1.1.
var Zipf = sync.OnceValue(func() []string {
	order := rand.New(rand.NewPCG(seed, 2)).Perm(ManyKeys)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 3)), 1.1, 1, ManyKeys-1)
	return draws(ManyKeys, func() int { return order[zipf.Uint64()] })
})

// Hot returns one key.
func Hot() []string { return []string{Key(7)} }
