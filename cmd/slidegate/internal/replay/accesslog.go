package replay

import (
	"bytes"
	"errors"
	"net/netip"
	"time"
)

var (
	errNoAddress = errors.New("the first field is not an IPv4 or IPv6 address")
	errNoTime    = errors.New("there is no time in brackets such as [10/Oct/2000:13:55:36 -0700]")
	errBadTime   = errors.New("the time in brackets is not one such as [10/Oct/2000:13:55:36 -0700]")
)

// An accessLog reads the Common and the Combined Log Format. The client's address is the first
// field, as it stands, and the time is the first field that begins with a bracket. What follows
// the time is not looked at, so a line that was cut short still counts its request, and the two
// formats are read alike.
type accessLog struct {
	keys *keys

	// The minute and zone that were read last, and their time: most lines share them with the
	// line before.
	minute [17]byte
	zone   [5]byte
	at     int64
}

func newAccessLog(k *keys) *accessLog {
	p := &accessLog{keys: k}
	copy(p.minute[:], "01/Jan/1970:00:00")
	copy(p.zone[:], "+0000")
	return p
}

func (p *accessLog) parse(line []byte, e *event) error {
	end := bytes.IndexByte(line, ' ')
	if end <= 0 {
		return errNoAddress
	}
	t, err := p.time(line[end:])
	if err != nil {
		return err
	}
	id, ok := p.keys.find(line[:end])
	if !ok {
		if !isAddress(line[:end]) {
			return errNoAddress
		}
		id = p.keys.add(line[:end])
	}
	*e = event{t: t, cost: 1, key: id}
	return nil
}

// isAddress is asked once for each client: a key that is known was an address.
func isAddress(b []byte) bool {
	_, err := netip.ParseAddr(string(b))
	return err == nil
}

// time finds and reads the time in brackets.
func (p *accessLog) time(rest []byte) (int64, error) {
	for {
		i := bytes.IndexByte(rest, '[')
		if i < 0 {
			return 0, errNoTime
		}
		if i > 0 && rest[i-1] == ' ' {
			if t, ok := p.stamp(rest[i+1:]); ok {
				return t, nil
			}
			return 0, errBadTime
		}
		rest = rest[i+1:]
	}
}

// stamp reads "10/Oct/2000:13:55:36 -0700]", where a fraction may follow the seconds.
func (p *accessLog) stamp(b []byte) (int64, bool) {
	if len(b) < 27 || b[17] != ':' {
		return 0, false
	}
	minute, seconds, rest := b[:17], two(b[18:]), b[20:]
	milli := int64(0)
	if rest[0] == '.' {
		milli, rest = fraction(rest[1:])
	}
	if uint(seconds) > 59 || len(rest) < 7 || rest[0] != ' ' || rest[6] != ']' {
		return 0, false
	}
	zone := rest[1:6]
	if string(minute) != string(p.minute[:]) || string(zone) != string(p.zone[:]) {
		at, ok := minuteAt(minute, zone)
		if !ok {
			return 0, false
		}
		copy(p.minute[:], minute)
		copy(p.zone[:], zone)
		p.at = at
	}
	return p.at + int64(seconds)*1000 + milli, true
}

// minuteAt returns the time of "10/Oct/2000:13:55" in the zone "-0700", in milliseconds.
func minuteAt(b, zone []byte) (int64, bool) {
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || zone[0] != '+' && zone[0] != '-' {
		return 0, false
	}
	day, century, year, hour, minute := two(b), two(b[7:]), two(b[9:]), two(b[12:]), two(b[15:])
	month := monthOf(b[3:6])
	east, eastMinutes := two(zone[1:]), two(zone[3:])
	if day < 0 || month < 0 || century < 0 || year < 0 || uint(hour) > 23 || uint(minute) > 59 || uint(east) > 23 || uint(eastMinutes) > 59 {
		return 0, false
	}
	t := time.Date(century*100+year, time.Month(month), day, hour, minute, 0, 0, time.UTC)
	if t.Day() != day { // there is no such day in the month
		return 0, false
	}
	offset := int64(east*60+eastMinutes) * 60_000
	if zone[0] == '-' {
		offset = -offset
	}
	return t.UnixMilli() - offset, true
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
// digit there is no rest, which no caller takes for a time.
func fraction(b []byte) (milli int64, rest []byte) {
	unit := int64(100)
	for i, c := range b {
		if c < '0' || c > '9' {
			if i == 0 {
				return 0, nil
			}
			return milli, b[i:]
		}
		milli += int64(c-'0') * unit
		unit /= 10
	}
	return 0, nil
}
