package bench

import (
	"fmt"
	"time"
)

// The servers that the targets of doors are about, and what they are held against.
const (
	AuthDoor  = "slidegate-auth"
	JSONDoor  = "slidegate-json"
	RLSDoor   = "slidegate-rls-memory"
	RLSRedis  = "slidegate-rls-redis"
	BareHTTP  = "bare-net/http" // answers what the door answered first, whatever it is asked
	BareGRPC  = "bare-grpc"     // likewise
	RateLimit = "envoyproxy-ratelimit"
)

// A Door is a server in a process of its own.
type Door struct {
	Name string
	open func(*Doors) (asker, error)
}

// An asker sends requests to a server and wants them admitted.
type asker interface {
	Ask(calls int) error
	Close()
}

// A Street is doors that answer the same requests.
type Street struct {
	Name, About string
	Against     string // the name of the door that the others are held against
	Calls       int    // of a round
	Doors       []Door
}

// Streets returns all doors.
func Streets() []Street {
	const kept = "a request over connections that are kept alive, client included: as many requests a second are a ratio of 1"
	return []Street{
		{"doors-auth", "forward-auth, " + kept, BareHTTP, 4_000, httpDoors(AuthDoor, authRequests, startAuth)},
		{"doors-json", "POST /v1/take, " + kept, BareHTTP, 4_000, httpDoors(JSONDoor, jsonRequests, startJSON)},
		{"doors-rls", "ShouldRateLimit of one descriptor, " + kept, RateLimit, 4_000, rlsDoors()},
	}
}

// Doors are those of one run. They are opened when they are first asked, and stay open.
type Doors struct {
	programs programs
	redis    func() *Redis
	opened   map[string]asker // by the names of the street and the door
}

// NewDoors returns doors of which those on Redis use the one that the function returns.
func NewDoors(redis func() *Redis) *Doors {
	return &Doors{redis: redis, opened: map[string]asker{}}
}

// Close ends all servers.
func (s *Doors) Close() {
	for _, a := range s.opened {
		a.Close()
	}
	s.programs.stop()
}

// Time asks a door of a street as often as the street says and returns what a request took.
func (s *Doors) Time(street *Street, d *Door) (ns float64, err error) {
	name := street.Name + "/" + d.Name
	a := s.opened[name]
	if a == nil {
		if a, err = d.open(s); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		s.opened[name] = a
		if err := a.Ask(street.Calls); err != nil { // the first of all keys
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	start := time.Now()
	if err := a.Ask(street.Calls); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return float64(time.Since(start)) / float64(street.Calls), nil
}

// The limit of all doors leaves room: nobody is refused.
const (
	doorLimit = "1000/1m"
	doorKeys  = 10_000
)
