package accesslog

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

var (
	errNoTime  = errors.New("there is no time such as [10/Oct/2000:13:55:36 -0700]")
	errBadTime = errors.New("the time is not one such as 10/Oct/2000:13:55:36 -0700, 2000-10-10T13:55:36.123-07:00 or 971211336.123, of the years 0 to 9999")
)

// The times that an RFC 3339 time can name, in milliseconds.
const firstTime, lastTime = -62_167_219_200_000, 253_402_300_799_999

// A clock reads times. It remembers the minute and zone that it read last, which most lines share with
// the line before.
type clock struct {
	clf, iso minute
}

type minute struct {
	text [17]byte
	zone [6]byte
	at   int64
	set  bool
}

// read returns a time in one of the ways in which logs write it, in milliseconds since 1970.
func (c *clock) read(b []byte) (int64, bool) {
	switch {
	case len(b) >= 26 && b[2] == '/':
		if t, rest, ok := c.stamp(b); ok && len(rest) == 0 {
			return t, true
		}
		return 0, false
	case len(b) >= 19 && b[4] == '-':
		return c.date(b)
	}
	return epoch(b)
}

// stamp reads "10/Oct/2000:13:55:36 -0700", where a fraction may follow the seconds, and returns what
// comes after it.
func (c *clock) stamp(b []byte) (t int64, rest []byte, ok bool) {
	if len(b) < 26 || b[17] != ':' {
		return 0, nil, false
	}
	m, seconds, milli := &c.clf, two(b[18:]), int64(0)
	rest = b[20:]
	if rest[0] == '.' {
		milli, rest = fraction(rest[1:])
	}
	if uint(seconds) > 59 || len(rest) < 6 || rest[0] != ' ' {
		return 0, nil, false
	}
	zone := rest[1:6]
	if !m.set || string(b[:17]) != string(m.text[:]) || string(zone) != string(m.zone[:5]) {
		at, ok := minuteAt(b[:17], zone)
		if !ok {
			return 0, nil, false
		}
		copy(m.text[:], b)
		copy(m.zone[:], zone)
		m.at, m.set = at, true
	}
	return m.at + int64(seconds)*1000 + milli, rest[6:], true
}

// date reads "2000-10-10T13:55:36.123-07:00": RFC 3339, and what is usual besides: a blank for the T, a
// comma for the point, -0700 for the zone, and no zone for UTC.
func (c *clock) date(b []byte) (int64, bool) {
	const toMinute = len("2000-10-10T13:55")
	m, seconds, milli := &c.iso, two(b[17:]), int64(0)
	rest := b[19:]
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		if milli, rest = fraction(rest[1:]); rest == nil {
			return 0, false
		}
	}
	if uint(seconds) > 59 || b[16] != ':' || len(rest) > len(m.zone) {
		return 0, false
	}
	if !m.set || string(b[:toMinute]) != string(m.text[:toMinute]) || string(rest) != string(bytes.TrimRight(m.zone[:], "\x00")) {
		at, ok := dateMinute(b[:toMinute], rest)
		if !ok {
			return 0, false
		}
		copy(m.text[:], b[:toMinute])
		m.zone = [6]byte{}
		copy(m.zone[:], rest)
		m.at, m.set = at, true
	}
	return m.at + int64(seconds)*1000 + milli, true
}

func dateMinute(b, zone []byte) (int64, bool) {
	for _, layout := range []string{"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700"} {
		text := []byte(string(b) + string(zone))
		if len(zone) == 0 {
			text = append(text, 'Z')
		}
		if text[10] == ' ' || text[10] == 't' {
			text[10] = 'T'
		}
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// minuteAt returns the time of "10/Oct/2000:13:55" in the zone "-0700", in milliseconds.
func minuteAt(b, zone []byte) (int64, bool) {
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' {
		return 0, false
	}
	day, century, year, hour, minute := two(b), two(b[7:]), two(b[9:]), two(b[12:]), two(b[15:])
	month := monthOf(b[3:6])
	offset, ok := offsetOf(zone)
	if !ok || day < 0 || month < 0 || century < 0 || year < 0 || uint(hour) > 23 || uint(minute) > 59 {
		return 0, false
	}
	t := time.Date(century*100+year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
	if t.Day() != day { // there is no such day in the month
		return 0, false
	}
	return t.UnixMilli() - offset, true
}

// offsetOf reads a zone such as -0700, in milliseconds.
func offsetOf(zone []byte) (int64, bool) {
	if len(zone) != 5 || zone[0] != '+' && zone[0] != '-' {
		return 0, false
	}
	hours, minutes := two(zone[1:]), two(zone[3:])
	if uint(hours) > 23 || uint(minutes) > 59 {
		return 0, false
	}
	offset := int64(hours*60+minutes) * 60_000
	if zone[0] == '-' {
		offset = -offset
	}
	return offset, true
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthOf returns 1 to 12, -1 if b is no month.
func monthOf(b []byte) int {
	for i := 0; i < len(months); i += 3 {
		if months[i:i+3] == string(b) {
			return i/3 + 1
		}
	}
	return -1
}

// two reads two digits, -1 if they are none.
func two(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		return -1
	}
	return int(tens)*10 + int(ones)
}

// fraction reads the digits of a fraction of a second, in milliseconds rounded down. Without a
// digit there is no rest, nil, which no caller takes for a time.
func fraction(b []byte) (milli int64, rest []byte) {
	unit, n := int64(100), 0
	for n < len(b) && b[n]-'0' <= 9 {
		milli += int64(b[n]-'0') * unit
		unit /= 10
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return milli, b[n:]
}

// epoch reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970; which, the
// number of its digits tells: for times from 1971 to 5138 it cannot be mistaken.
func epoch(b []byte) (int64, bool) {
	whole, part, hasPart := bytes.Cut(b, []byte{'.'})
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || len(whole) == 0 || whole[0] < '0' {
		return scientific(b)
	}
	switch {
	case n < 100_000_000_000: // seconds
		milli := int64(0)
		if hasPart {
			var rest []byte
			if milli, rest = fraction(part); len(rest) > 0 || rest == nil {
				return scientific(b)
			}
		}
		n = n*1000 + milli
	case n >= 100_000_000_000_000_000:
		n /= 1_000_000
	case n >= 100_000_000_000_000:
		n /= 1000
	}
	return n, n <= lastTime
}

// scientific reads 1.7e9 seconds, as some JSON has them.
func scientific(b []byte) (int64, bool) {
	if !bytes.ContainsAny(b, "eE") {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(f >= 0 && f < 100_000_000_000) {
		return 0, false
	}
	return int64(f * 1000), true
}

// decimalSeconds reads a time that passed, such as 0.123, in milliseconds. nginx writes - for none.
func decimalSeconds(b []byte) (int64, bool) {
	if len(b) == 0 || b[0] < '0' || b[0] > '9' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(f >= 0 && f < 1e9) {
		return 0, false
	}
	return int64(f*1000 + 0.5), true
}
