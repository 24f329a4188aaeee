package main

import (
	"fmt"

	"github.com/slidegate/slidegate/test/bench"
)

// accessLogs are written when they are first read.
var accessLogs bench.Logs

func logPart() part {
	p := part{
		name: "logs", unit: "ns", rounds: 1,
		about: fmt.Sprintf("a line of a log of %d, by a program that is started for it", bench.LogLines),
	}
	for _, name := range accessLogs.Commands() {
		p.rows = append(p.rows, row{name, bench.Awk, func() (float64, error) { return accessLogs.Time(name) }})
	}
	return p
}
