package redisscript

import (
	"encoding/binary"
	"fmt"
)

// A value is what is stored, read by a second reader of the format.
type value struct {
	form    int
	newest  int64
	units   int64
	entries []charged // of a log, oldest first
	pages   int
	slots   int
}

// A charged is an entry of a log.
type charged struct{ at, units int64 }

const (
	small, large, counted = 1, 2, 3

	areaSize = 50
	pageSize = 14 + areaSize
	backAt   = 36
	frontAt  = backAt + areaSize
	ringAt   = frontAt + areaSize
	pagesAt  = ringAt + 22
)

// A reading cursor: what is left of a value.
type cursor []byte

func (c *cursor) bytes(n int) []byte {
	b := (*c)[:n]
	*c = (*c)[n:]
	return b
}

func (c *cursor) unsigned(n int) (v int64) {
	for _, b := range c.bytes(n) {
		v = v<<8 | int64(b)
	}
	return v
}

func (c *cursor) time() int64 { return c.unsigned(7) << 8 >> 8 }

// packed reads a number whose first byte says how many follow; it panics if they are more than it takes.
func (c *cursor) packed() int64 {
	before := len(*c)
	n := c.unpacked()
	if size := before - len(*c); size != len(packed(n)) {
		panic(fmt.Sprintf("%d takes %d bytes", n, size))
	}
	return n
}

func (c *cursor) unpacked() int64 {
	first := int64((*c)[0])
	switch {
	case first < 0x80:
		return c.unsigned(1)
	case first < 0xC0:
		return c.unsigned(2) - 0x80<<8
	case first < 0xE0:
		return c.unsigned(3) - 0xC0<<16
	case first < 0xF0:
		return c.unsigned(4) - 0xE0<<24
	case first < 0xF8:
		return c.unsigned(5) - 0xF0<<32
	case first < 0xFC:
		return c.unsigned(6) - 0xF8<<40
	}
	c.bytes(1)
	return c.unsigned(7)
}

// understand reads a value and checks all that must hold of it.
func understand(b []byte) (v value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v in % x", r, b)
		}
	}()
	c := cursor(b)
	v.form = int(c.unsigned(2)) - 0xF508
	switch v.form {
	case small:
		err = v.readLog(c)
	case large:
		err = v.readLarge(b)
	case counted:
		c.packed()
		v.units = c.packed() + c.packed()
		if len(c) > 0 {
			err = fmt.Errorf("%d bytes behind a counter", len(c))
		}
	default:
		err = fmt.Errorf("form %d", v.form)
	}
	return v, err
}

// head reads the head of a log, and returns the oldest time and the units of the newest entry.
func (v *value) head(c *cursor) (oldest, last int64) {
	v.newest = c.time()
	oldest = v.newest - c.unsigned(6)
	v.units = c.unsigned(6)
	return oldest, c.unsigned(6)
}

// read appends entries, of which the first was at time, and returns the time of what follows.
func (v *value) read(c cursor, time int64) (int64, error) {
	for len(c) > 0 {
		n := c.packed()
		units := int64(1)
		if n&1 != 0 {
			units = c.packed()
		}
		if units < 1 || n < 2 {
			return 0, fmt.Errorf("an entry of %d units with a gap of %d", units, n/2)
		}
		v.entries = append(v.entries, charged{time, units})
		time += n / 2
	}
	return time, nil
}

func (v *value) readLog(c cursor) error {
	oldest, last := v.head(&c)
	end, err := v.read(c, oldest)
	if err != nil {
		return err
	}
	if end != v.newest {
		return fmt.Errorf("entries lead to %d, the newest is at %d", end, v.newest)
	}
	return v.close(last)
}

// close appends the newest entry and checks the sum of units and the order of times.
func (v *value) close(last int64) error {
	v.entries = append(v.entries, charged{v.newest, last})
	sum := int64(0)
	for i, e := range v.entries {
		sum += e.units
		if i > 0 && e.at <= v.entries[i-1].at {
			return fmt.Errorf("entry %d of %d at %d follows %d", i, len(v.entries), e.at, v.entries[i-1].at)
		}
	}
	if sum != v.units || last < 1 {
		return fmt.Errorf("%d units in entries, %d in the newest, %d in the head", sum, last, v.units)
	}
	return nil
}

func (v *value) readLarge(b []byte) error {
	c := cursor(b[2:])
	oldest, last := v.head(&c)
	base := c.unsigned(6)
	backSize, dropped, size := c.unsigned(1), c.unsigned(1), c.unsigned(1)
	c = cursor(b[ringAt:])
	backTime, backTotal := c.time(), c.unsigned(6)
	first := int(c.unsigned(3))
	v.pages, v.slots = int(c.unsigned(3)), int(c.unsigned(3))
	if len(b) != pagesAt+v.slots*pageSize {
		return fmt.Errorf("%d bytes with %d slots", len(b), v.slots)
	}
	if dropped >= size {
		return fmt.Errorf("an empty front in a large log")
	}
	front := b[frontAt:]
	if _, err := v.read(front[dropped:size], oldest); err != nil {
		return err
	}
	for j := range v.pages {
		p := cursor(b[pagesAt+(first+j)%v.slots*pageSize:][:pageSize])
		time, total, used := p.time(), p.unsigned(6), int(p.unsigned(1))
		if used == 0 {
			return fmt.Errorf("page %d of %d is empty", j, v.pages)
		}
		if err := v.part(fmt.Sprintf("page %d of %d", j, v.pages), p[:used], time, total, base); err != nil {
			return err
		}
	}
	back := b[backAt:][:backSize]
	if backSize == 0 && backTime != v.newest {
		return fmt.Errorf("an empty back at %d, the newest at %d", backTime, v.newest)
	}
	if err := v.part("the back", back, backTime, backTotal, base); err != nil {
		return err
	}
	return v.close(last)
}

// part reads a page or the back and checks the running total before it.
func (v *value) part(name string, b []byte, time, total, base int64) error {
	sum := int64(0)
	for _, e := range v.entries {
		sum += e.units
	}
	if (base+sum)&(1<<48-1) != total {
		return fmt.Errorf("%s says %d units are before it, they are %d", name, total-base, sum)
	}
	_, err := v.read(b, time)
	return err
}

// bigEndian returns the last size bytes of a number.
func bigEndian(n uint64, size int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return b[8-size:]
}
