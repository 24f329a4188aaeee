package main

import (
	"regexp"
	"strings"
)

// A target is files that are mutated, and the packages whose tests are to find it.
type target struct{ files, killers []string }

var targets = []target{
	{[]string{"internal/window/counter.go", "internal/window/log.go"},
		[]string{"internal/window", "memstore", "test"}},
	{[]string{"memstore/plan.go", "memstore/limit.go", "memstore/ring.go", "memstore/few.go", "memstore/packed.go", "memstore/slab.go", "memstore/shard.go", "memstore/store.go", "memstore/joint.go", "memstore/charges.go"},
		[]string{"memstore", "test"}},
	{[]string{"limit.go", "limiter.go", "decision.go", "settle.go", "group.go", "charges.go"},
		[]string{".", "memstore", "test", "gatetest", "wrap"}},
	{[]string{"wrap/denials.go", "wrap/denials_plan.go", "wrap/fallback.go", "wrap/fallback_plan.go", "wrap/fallback_debts.go"},
		[]string{"wrap"}},
	{[]string{"redisstore/common.lua", "redisstore/take.lua", "redisstore/refund.lua", "redisstore/reset.lua"},
		[]string{"test/redisscript"}},
	{[]string{"redisstore/charges.lua"}, []string{"test/redisscript", "test/redisstore"}},
}

// without are tests that have nothing to find here, or that are too long for what they find: those about the repository
// itself, about millions of keys, about servers that do not answer.
var without = regexp.MustCompile(`^Benchmark|^Test(` +
	`ImportLaw|FreeModules|RootModule|EveryModule|Readme|Licence|Links|NamedCode|EveryOption|Promises|API|Metrics|` +
	`AMillionOneShotKeys|CommandsAreOfRedis6|ADistant|ManyLost|AnAddress|SeveralKeysOnACluster|OneCallADecision)`)

func isLua(file string) bool { return strings.HasSuffix(file, ".lua") }
