package soak

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A span is a stretch of time, in milliseconds since the Unix epoch, with both its ends.
type span struct{ from, to int64 }

func now() int64 { return time.Now().UnixMilli() }

// forever is later than everything.
const forever = 1<<63 - 1

// A kind says what an entry is.
type kind uint8

const (
	exact   kind = 1 << iota // its time is that of the store; else it was some time in the span
	byShare                  // it may have been decided by a share, while Redis was away
	reset                    // it is no admission: somebody reset the key, some time in the span
)

// An entry is a line of the history: an admission, and when it was made.
type entry struct {
	span
	units  int64  // less than 2³²
	key    uint32 // the number of the key
	ledger uint8  // the number of the ledger
	kind   kind
}

// entryBytes is what an entry takes in the file, so that an hour of a thousand admissions a second takes 86 MB.
const entryBytes = 24

// A history is all entries, in a file: this program's own memory is measured as well. It is safe for concurrent use.
type history struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
}

// newHistory makes an empty one, which goes with the test.
func newHistory(t testing.TB) *history {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &history{file: file, out: bufio.NewWriterSize(file, 1<<16)}
}

func (h *history) add(e entry) {
	var b [entryBytes]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(e.from))
	binary.LittleEndian.PutUint32(b[8:], uint32(e.to-e.from))
	binary.LittleEndian.PutUint32(b[12:], uint32(e.units))
	binary.LittleEndian.PutUint32(b[16:], e.key)
	b[20], b[21] = e.ledger, uint8(e.kind)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.out.Write(b[:]); err != nil && h.err == nil {
		h.err = err
	}
}

// entries returns all of them, by ledger, in the order in which they were added.
func (h *history) entries() (map[uint8][]entry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(h.err, h.out.Flush()); err != nil {
		return nil, err
	}
	if _, err := h.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	all := map[uint8][]entry{}
	for in := bufio.NewReaderSize(h.file, 1<<16); ; {
		var b [entryBytes]byte
		if _, err := io.ReadFull(in, b[:]); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		from := int64(binary.LittleEndian.Uint64(b[0:]))
		e := entry{
			span:   span{from, from + int64(binary.LittleEndian.Uint32(b[8:]))},
			units:  int64(binary.LittleEndian.Uint32(b[12:])),
			key:    binary.LittleEndian.Uint32(b[16:]),
			ledger: b[20],
			kind:   kind(b[21]),
		}
		all[e.ledger] = append(all[e.ledger], e)
	}
}
