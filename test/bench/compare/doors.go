package main

import (
	"os"

	"github.com/slidegate/slidegate/test/bench"
)

// doors are started when they are first asked.
var doors = bench.NewDoors(redis)

func doorParts() (all []part) {
	for _, s := range bench.Streets() {
		p := part{name: s.Name, about: s.About, unit: "ns", rounds: brief}
		for _, d := range s.Doors {
			p.rows = append(p.rows, row{d.Name, s.Against, func() (float64, error) { return doors.Time(&s, &d) }})
		}
		all = append(all, p)
	}
	return all
}

// end stops every server of the run and leaves.
func end(code int) {
	doors.Close()
	accessLogs.Close()
	stopServer()
	os.Exit(code)
}
