package bans

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
)

//go:embed bans.lua
var source string

var script = redisstore.NewScript("bans", source)

// A Shared is a list in Redis, under the key PREFIX:bans, which no key of a limit is. It lives until the last ban is
// over. One goroutine at a time may use it.
type Shared struct {
	client  redisstore.Client
	keys    []string
	timeout time.Duration
	version int64         // of the list that was read or written last
	ahead   time.Duration // the clock of Redis is, of that of this process
	known   bool          // ahead is
}

// NewShared returns the list of those who have the same Redis and prefix. It asks nothing yet. An exchange may take
// as long as timeout.
func NewShared(client redisstore.Client, prefix string, timeout time.Duration) *Shared {
	return &Shared{client: client, keys: []string{prefix + ":bans"}, timeout: timeout}
}

// A stored ban has times of the clock of Redis, in milliseconds, so that processes agree on when it ends.
type stored struct {
	Key    string `json:"key"`
	Since  int64  `json:"since"`
	Until  int64  `json:"until"`
	Reason string `json:"reason,omitempty"`
}

// A reply is what became of an exchange.
type reply struct {
	written bool
	bans    table // nil where it is as before
}

var errStrange = errors.New("the list of bans in Redis is none")

// exchange writes a list in the place of the one that is known, or reads the one that is there. The first write only
// reads: the clock of Redis is not known before.
func (s *Shared) exchange(ctx context.Context, next *table) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	args := []string{strconv.FormatInt(s.version, 10)}
	if next != nil && s.known {
		args = append(args, s.lifeAndText(*next)...)
	}
	got, err := s.client.Run(ctx, script, s.keys, args)
	if err == nil && len(got) < 3 {
		err = errStrange
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", slidegate.ErrUnavailable, err)
	}
	s.ahead, s.known = time.Duration(got[0]-time.Now().UnixMilli())*time.Millisecond, true
	if r.written = got[2] == 1; !r.written && got[1] != s.version {
		if r.bans, err = s.read(got); err != nil {
			return r, fmt.Errorf("%w: %w", slidegate.ErrUnavailable, err)
		}
	}
	s.version = got[1]
	return r, nil
}

// lifeAndText returns a list as it is written.
func (s *Shared) lifeAndText(bans table) []string {
	if len(bans) == 0 {
		return []string{"0", ""}
	}
	var all []stored
	life := int64(1)
	for _, b := range bans {
		all = append(all, stored{b.Key, b.Since.Add(s.ahead).UnixMilli(), b.Until.Add(s.ahead).UnixMilli(), b.Reason})
		life = max(life, time.Until(b.Until).Milliseconds())
	}
	text, _ := json.Marshal(all) // of strings and numbers
	return []string{strconv.FormatInt(life, 10), string(text)}
}

// read returns the list in a reply, in times of this process.
func (s *Shared) read(got []int64) (table, error) {
	bans := table{}
	if got[1] == 0 {
		return bans, nil
	}
	if len(got) < 4 || got[3] < 0 || got[3] > int64(len(got)-4)*6 {
		return nil, errStrange
	}
	var text []byte
	for _, n := range got[4:] {
		text = append(text, binary.BigEndian.AppendUint64(nil, uint64(n))[2:]...)
	}
	var all []stored
	if err := json.Unmarshal(text[:got[3]], &all); err != nil {
		return nil, errStrange
	}
	for _, b := range all {
		bans[b.Key] = Ban{b.Key, time.UnixMilli(b.Since).Add(-s.ahead), time.UnixMilli(b.Until).Add(-s.ahead), b.Reason}
	}
	return bans, nil
}
