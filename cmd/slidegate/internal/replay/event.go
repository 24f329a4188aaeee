package replay

import "errors"

// An op is what an event asks of the limiter.
type op uint8

const (
	take op = iota
	peek
	reset
)

func (o op) String() string { return [...]string{"take", "peek", "reset"}[o] }

// An event is one line of a log: 32 bytes, no pointer.
type event struct {
	t    int64  // milliseconds since the Unix epoch
	cost int64  // units
	key  uint32 // its number in keys
	pos  uint32 // its position in a chunk, so that ties stay in file order
	op   op
}

// A parser reads one line, without its end, into an event. The error says why a line cannot be
// read; it is the same value for every such line where that can be, so bad lines are cheap too.
type parser interface {
	parse(line []byte, e *event) error
}

var errEmptyKey = errors.New("the key is empty: it would be one bucket for everybody")

// keys numbers the distinct keys in the order in which they were first seen. It is what a report
// has to hold for each key, and grows with their number, not with the log.
type keys struct {
	ids   map[string]uint32
	names []string
}

func newKeys() *keys { return &keys{ids: map[string]uint32{}} }

func (k *keys) find(name []byte) (id uint32, ok bool) {
	id, ok = k.ids[string(name)]
	return id, ok
}

func (k *keys) add(name []byte) uint32 {
	id, s := uint32(len(k.names)), string(name)
	k.ids[s] = id
	k.names = append(k.names, s)
	return id
}

func (k *keys) intern(name []byte) uint32 {
	if id, ok := k.find(name); ok {
		return id
	}
	return k.add(name)
}
