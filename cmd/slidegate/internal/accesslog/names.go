package accesslog

import (
	"bytes"
	"errors"
	"net/netip"
	"strconv"
)

var errNoAddress = errors.New("the client's address is not an IPv4 or IPv6 address")

// A kind is what a field of a log says of the request.
type kind uint8

const (
	other kind = iota
	timeOfRequest
	duration // in seconds
	address
	requestLine
	method
	host
	target     // path and query, or a whole URL
	hostTarget // a host and a target in one: shop.example/path?query
	query
	status
	bytesSent
	kinds
)

// A meaning is what the name of a field stands for. Where a log has several of a kind, that of the lowest
// rank counts, however they are ordered.
type meaning struct {
	kind  kind
	rank  uint8
	end   bool // the time is that of the end of the request
	whole bool // ... in whole seconds
	port  bool // a port may follow the address, and further addresses after a comma
}

// meanings are the names that logs use, of nginx's variables and of members and columns:
//
//   - nginx: https://nginx.org/en/docs/varindex.html
//   - Caddy: https://caddyserver.com/docs/caddyfile/directives/log
//   - Traefik: https://doc.traefik.io/traefik/observe/logs-and-access-logs/
//   - Envoy, whose names are the operator's own, as Istio writes them:
//     https://istio.io/latest/docs/tasks/observability/logs/access-log/
var meanings = map[string]meaning{
	"start_time":            {kind: timeOfRequest, rank: 1},
	"StartUTC":              {kind: timeOfRequest, rank: 1},
	"StartLocal":            {kind: timeOfRequest, rank: 2},
	"request_creation_time": {kind: timeOfRequest, rank: 1},
	"msec":                  {kind: timeOfRequest, rank: 3, end: true},
	"ts":                    {kind: timeOfRequest, rank: 3, end: true},
	"time_iso8601":          {kind: timeOfRequest, rank: 4, end: true, whole: true},
	"time_local":            {kind: timeOfRequest, rank: 5, end: true, whole: true},
	"time":                  {kind: timeOfRequest, rank: 6},
	"timestamp":             {kind: timeOfRequest, rank: 7},
	"@timestamp":            {kind: timeOfRequest, rank: 8},
	"datetime":              {kind: timeOfRequest, rank: 9},

	"request_time": {kind: duration, rank: 1},
	"duration":     {kind: duration, rank: 2},

	"ip":                        {kind: address, rank: 1, port: true},
	"request.client_ip":         {kind: address, rank: 2, port: true},
	"request.remote_ip":         {kind: address, rank: 3, port: true},
	"request.remote_addr":       {kind: address, rank: 4, port: true},
	"ClientHost":                {kind: address, rank: 5, port: true},
	"ClientAddr":                {kind: address, rank: 6, port: true},
	"client_ip":                 {kind: address, rank: 7, port: true},
	"clientip":                  {kind: address, rank: 8, port: true},
	"remote_addr":               {kind: address, rank: 9},
	"remote_ip":                 {kind: address, rank: 10, port: true},
	"downstream_remote_address": {kind: address, rank: 11, port: true},
	"client":                    {kind: address, rank: 12, port: true},
	"address":                   {kind: address, rank: 13, port: true},

	"request": {kind: requestLine, rank: 9},

	"request.method": {kind: method, rank: 1},
	"request_method": {kind: method, rank: 2},
	"RequestMethod":  {kind: method, rank: 3},
	"method":         {kind: method, rank: 4},

	"http_host":    {kind: host, rank: 1},
	"request.host": {kind: host, rank: 2},
	"RequestHost":  {kind: host, rank: 3},
	"authority":    {kind: host, rank: 4},
	"host":         {kind: host, rank: 5},
	"server_name":  {kind: host, rank: 6},

	"request.uri":   {kind: target, rank: 1},
	"request_uri":   {kind: target, rank: 2},
	"RequestPath":   {kind: target, rank: 3},
	"path":          {kind: target, rank: 4},
	"uri":           {kind: target, rank: 5},
	"url":           {kind: target, rank: 6},
	"args":          {kind: query, rank: 1},
	"query_string":  {kind: query, rank: 2},
	"status":        {kind: status, rank: 1},
	"response_code": {kind: status, rank: 2},

	"DownstreamStatus":      {kind: status, rank: 3},
	"body_bytes_sent":       {kind: bytesSent, rank: 1},
	"bytes_sent":            {kind: bytesSent, rank: 2},
	"size":                  {kind: bytesSent, rank: 3},
	"DownstreamContentSize": {kind: bytesSent, rank: 4},
	"bytes":                 {kind: bytesSent, rank: 5},
}

// An assembly puts a record together from the fields of a line.
type assembly struct {
	*Record
	clock clock

	rank  [kinds]uint8 // 0 where nothing was seen
	took  int64        // milliseconds, -1 if the line does not say
	ended meaning      // of the time
}

func (a *assembly) begin(r *Record) {
	r.reset()
	a.Record, a.took = r, -1
	a.rank = [kinds]uint8{}
}

// set takes in a field. An error means that the line cannot be read.
func (a *assembly) set(m meaning, value []byte) error {
	if m.kind == other || len(value) == 0 || len(value) == 1 && value[0] == '-' {
		return nil
	}
	if have := a.rank[m.kind]; have != 0 && have <= m.rank {
		return nil
	}
	a.rank[m.kind] = max(1, m.rank)
	switch m.kind {
	case timeOfRequest:
		return a.setTime(m, value)
	case address:
		return a.setAddress(m, value)
	case duration:
		if ms, ok := decimalSeconds(value); ok {
			a.took = ms
		}
	case requestLine:
		a.setLine(value)
	case method:
		a.Method = value
	case host:
		a.Host = value
	case target:
		a.target(value)
	case hostTarget:
		host, _, _ := bytes.Cut(value, []byte{'/'})
		a.Host = host
		a.target(value[len(host):])
	case query:
		a.Query = bytes.TrimPrefix(value, []byte{'?'})
	case status:
		a.Status = int(leadingNumber(value))
	case bytesSent:
		a.Bytes = leadingNumber(value)
	}
	return nil
}

func (a *assembly) setTime(m meaning, value []byte) error {
	t, ok := a.clock.read(value)
	if !ok {
		return errBadTime
	}
	a.Time, a.ended = t, m
	return nil
}

// setLine takes a request line where nothing that is more exact tells of its parts.
func (a *assembly) setLine(line []byte) {
	p := partsOf(line)
	if a.rank[method] == 0 {
		a.Method = p.method
	}
	if a.rank[target] == 0 {
		a.Path, a.Query = p.path, p.query
	}
	if a.rank[host] == 0 {
		a.Host = p.host
	}
}

// target takes a target, whose host counts where nothing else tells it.
func (a *assembly) target(value []byte) {
	p := partsOfTarget(value)
	a.Path = p.path
	if a.rank[query] == 0 {
		a.Query = p.query
	}
	if len(a.Host) == 0 {
		a.Host = p.host
	}
}

func (a *assembly) setAddress(m meaning, value []byte) error {
	if m.port {
		value, _, _ = bytes.Cut(value, []byte{','})
		value = withoutPort(bytes.TrimSpace(value))
	}
	if !isAddress(value) {
		return errNoAddress
	}
	a.Address = value
	return nil
}

// finish is an error if the line does not tell when, or who.
func (a *assembly) finish() error {
	if a.rank[address] == 0 {
		return errNoAddress
	}
	if a.rank[timeOfRequest] == 0 {
		return errNoTime
	}
	if !a.ended.end || a.took < 0 {
		return nil
	}
	if a.ended.whole && a.Time%1000 == 0 {
		// It ended within the second that began then; in its middle is the best guess.
		a.Time = floorSecond(a.Time + 500 - a.took)
		return nil
	}
	a.Time -= a.took
	return nil
}

func floorSecond(t int64) int64 {
	if rest := t % 1000; rest < 0 {
		return t - rest - 1000
	} else {
		return t - rest
	}
}

// isAddress tells an IPv4 or IPv6 address. One of IPv4 is recognized without an allocation.
func isAddress(b []byte) bool {
	if len(b) <= len("255.255.255.255") && isIPv4(b) {
		return true
	}
	if bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(string(b))
	return err == nil
}

func isIPv4(b []byte) bool {
	n, digits, dots := 0, 0, 0
	for _, c := range b {
		switch {
		case c == '.':
			if digits == 0 {
				return false
			}
			dots++
			n, digits = 0, 0
		case c-'0' > 9 || digits > 0 && n == 0:
			return false // no digit, or one after a leading zero
		default:
			n = n*10 + int(c-'0')
			if digits++; n > 255 {
				return false
			}
		}
	}
	return dots == 3 && digits > 0
}

// withoutPort returns the address of 192.0.2.1:80 and of [2001:db8::1]:80.
func withoutPort(b []byte) []byte {
	if len(b) > 1 && b[0] == '[' {
		if end := bytes.IndexByte(b, ']'); end > 0 {
			return b[1:end]
		}
	}
	if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.LastIndexByte(b, ':') == i {
		return b[:i]
	}
	return b
}

// leadingNumber returns the number that b begins with, -1 if there is none.
func leadingNumber(b []byte) int64 {
	n := 0
	for n < len(b) && n < 18 && b[n]-'0' <= 9 {
		n++
	}
	v, err := strconv.ParseInt(string(b[:n]), 10, 64)
	if err != nil {
		return -1
	}
	return v
}
