package accesslog

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// wanted is what a line tells.
type wanted struct {
	time                              string // RFC 3339
	ip, method, host, path, query, ua string
	status                            int
	bytes                             int64
}

// samples are lines as servers write them, in the words of their documentation:
//
//   - Common, Combined, LogFormat: https://httpd.apache.org/docs/current/mod/mod_log_config.html
//   - log_format: https://nginx.org/en/docs/http/ngx_http_log_module.html
//   - Caddy: https://caddyserver.com/docs/logging
//   - Traefik: https://doc.traefik.io/traefik/observe/logs-and-access-logs/
//   - Envoy: https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
//     and, as JSON with the names that Istio gives, https://istio.io/latest/docs/tasks/observability/logs/access-log/
//   - ALB: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
//   - columns: https://www.rfc-editor.org/rfc/rfc4180
var samples = []struct {
	name, format  string // told by itself where the format is auto
	fields, names string
	text          string
	told          string
	want          wanted
}{
	{
		name: "common", text: `198.18.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif?x=1 HTTP/1.0" 200 2326`, told: "common",
		want: wanted{"2000-10-10T20:55:36Z", "198.18.0.1", "GET", "", "/apache_pb.gif", "x=1", "", 200, 2326},
	},
	{
		name: "combined", told: "combined",
		text: `2001:db8::1 - - [10/Oct/2000:13:55:36 +0000] "POST http://shop.example:8080/a%20b HTTP/1.1" 302 - "https://shop.example/\"q\"" "a \"quoted\" agent\\"`,
		want: wanted{"2000-10-10T13:55:36Z", "2001:db8::1", "POST", "shop.example:8080", "/a%20b", "", `a "quoted" agent\`, 302, -1},
	},
	{
		name: "combined with more behind it, as Traefik writes it", told: "combined",
		text: `198.18.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET /dashboard/ HTTP/2.0" 404 19 "-" "curl/8" 7 "api@docker" "http://172.18.0.3:80" 2ms`,
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "", "/dashboard/", "", "curl/8", 404, 19},
	},
	{
		name: "no HTTP at all", text: `198.18.0.1 - - [10/Oct/2000:13:55:36 +0000] "\x16\x03\x01\x02" 400 157 "-" "-"`, told: "combined",
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "", "", "", "", "", 400, 157},
	},
	{
		name: "vhost_combined", told: "vhost_combined",
		text: `shop.example:443 198.18.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0"`,
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "shop.example", "/", "", "Mozilla/5.0", 200, 512},
	},
	{
		name: "nginx, combined and the time it took", format: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $host`,
		text: `198.18.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET /slow HTTP/1.1" 200 5 "-" "x" 10.250 shop.example`,
		want: wanted{"2000-10-10T13:55:26Z", "198.18.0.1", "GET", "shop.example", "/slow", "", "x", 200, 5},
	},
	{
		name: "nginx, milliseconds", format: `$msec|${remote_addr}|$request_method $scheme://$host$request_uri|$status|$request_time`,
		text: `971186136.123|198.18.0.1|GET https://shop.example/a?b=c|200|0.023`,
		want: wanted{"2000-10-10T13:55:36.1Z", "198.18.0.1", "GET", "shop.example", "/a", "b=c", "", 200, -1},
	},
	{
		name: "nginx, tabs", format: "$time_iso8601\t$remote_addr\t$request_method\t$http_host\t$request_uri\t$status\t$bytes_sent",
		text: "2000-10-10T13:55:36+02:00\t198.18.0.1\tGET\tshop.example\t/a?b=c\t200\t123",
		want: wanted{"2000-10-10T11:55:36Z", "198.18.0.1", "GET", "shop.example", "/a", "b=c", "", 200, 123},
	},
	{
		name: "nginx behind a proxy", format: `$remote_addr [$time_local] "$request" "$http_x_forwarded_for"`, fields: "ip=http_x_forwarded_for",
		text: `10.0.0.1 [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" "198.18.0.1, 10.0.0.9"`,
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "", "/", "", "", -1, -1},
	},
	{
		name: "Apache, a LogFormat with quotes as in its file", format: `%v %a %u %t \"%r\" %>s %O \"%{User-Agent}i\" %D`,
		text: `shop.example 198.18.0.1 - [10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200 77 "x" 5000000`,
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "shop.example", "/x", "", "x", 200, 77},
	},
	{
		name: "Apache, a time in parts", format: `[%{%Y-%m-%d %H:%M:%S}t.%{msec_frac}t %{%z}t] %h "%m %U%q %H" %s %b %{Host}i`,
		text: `[2000-10-10 13:55:36.789 +0200] 198.18.0.1 "GET /x?y HTTP/1.1" 200 - shop.example`,
		want: wanted{"2000-10-10T11:55:36.789Z", "198.18.0.1", "GET", "shop.example", "/x", "y", "", 200, -1},
	},
	{
		name: "Apache, microseconds", format: `%{usec}t %h %m %U "%{X-Api-Key}i" %{session}C`,
		text: `971186136123456 198.18.0.1 GET /x "k" s1`,
		want: wanted{"2000-10-10T13:55:36.123Z", "198.18.0.1", "GET", "", "/x", "", "", -1, -1},
	},
	{
		name: "ALB", told: "alb",
		text: `https 2018-07-02T22:23:00.186641Z app/my-lb/50dc6c495c0c9188 198.18.0.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
		want: wanted{"2018-07-02T22:22:48.364Z", "198.18.0.1", "GET", "www.example.com:443", "/a", "b=c", "curl/7.46.0", 200, 57},
	},
	{
		name: "ALB, a request that no target got", told: "alb",
		text: `h2 2018-07-02T22:23:00.186641Z app/my-lb/50dc6c495c0c9188 [2001:db8::1]:2817 - -1 -1 -1 502 - 0 257 "- http://www.example.com:80- -" "-" - - - "-" "-" "-" 0 2018-07-02T22:22:48.364000Z "waf" "-" "-" "-" "-" "-" "-"`,
		want: wanted{"2018-07-02T22:22:48.364Z", "2001:db8::1", "", "", "", "", "", 502, 257},
	},
	{
		name: "nginx, JSON", told: "json",
		text: `{"time_iso8601":"2000-10-10T13:55:36+00:00","remote_addr":"198.18.0.1","request":"GET /a?b HTTP/1.1","host":"shop.example","status":"200","body_bytes_sent":"12","request_time":"2.000","http_user_agent":"say \"hi\""}`,
		want: wanted{"2000-10-10T13:55:34Z", "198.18.0.1", "GET", "shop.example", "/a", "b", `say "hi"`, 200, 12},
	},
	{
		name: "Caddy", told: "json",
		text: `{"level":"info","ts":971186136.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"198.18.0.1","proto":"HTTP/2.0","method":"GET","host":"shop.example","uri":"/a?b=c","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.400929,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"User-Agent":["not the client"]}}`,
		want: wanted{"2000-10-10T13:55:36.123Z", "198.18.0.1", "GET", "shop.example", "/a", "b=c", "curl/7.82.0", 200, 10900},
	},
	{
		name: "Traefik", told: "json",
		text: `{"ClientAddr":"198.18.0.1:51234","ClientHost":"198.18.0.1","ClientPort":"51234","ClientUsername":"-","DownstreamContentSize":19,"DownstreamStatus":404,"Duration":46000,"RequestAddr":"shop.example","RequestHost":"shop.example","RequestMethod":"GET","RequestPath":"/a?b=c","RequestProtocol":"HTTP/1.1","StartLocal":"2000-10-10T15:55:36.123456789+02:00","StartUTC":"2000-10-10T13:55:36.123456789Z","level":"info","msg":"","request_User-Agent":"curl/8","time":"2000-10-10T13:55:37Z"}`,
		want: wanted{"2000-10-10T13:55:36.123Z", "198.18.0.1", "GET", "shop.example", "/a", "b=c", "curl/8", 404, 19},
	},
	{
		name: "Envoy, JSON as of Istio", told: "json",
		text: `{"authority":"shop.example","bytes_received":0,"bytes_sent":178,"downstream_remote_address":"198.18.0.1:40914","duration":1020,"method":"GET","path":"/a?b=c","protocol":"HTTP/1.1","request_id":"1","response_code":200,"response_flags":"-","start_time":"2000-10-10T13:55:36.123Z","upstream_host":null,"user_agent":"curl/8","x_forwarded_for":null}`,
		want: wanted{"2000-10-10T13:55:36.123Z", "198.18.0.1", "GET", "shop.example", "/a", "b=c", "curl/8", 200, 178},
	},
	{
		name: "JSON with names of one's own", format: "json", fields: "time=@when ip=who.addr path=what.target method=what.verb header:User-Agent=what.by", told: "json",
		text: `{"@when":971186136123,"time":"yesterday","who":{"addr":"[2001:db8::1]:80"},"what":{"verb":"GET","target":"/a?b=c","by":"x"}}`,
		want: wanted{"2000-10-10T13:55:36.123Z", "2001:db8::1", "GET", "", "/a", "b=c", "x", -1, -1},
	},
	{
		name: "CSV with a header", told: "csv",
		text: "Timestamp,Client IP,method,path,status,user_agent\r\n2000-10-10 13:55:36,198.18.0.1,GET,/a?b=c,200,\"one, \"\"two\"\"\"\r\n",
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "", "/a", "b=c", `one, "two"`, 200, -1},
	},
	{
		name: "TSV with a header", told: "tsv", text: "ts\tclient_ip\thost\turi\n971186136.123\t198.18.0.1\tshop.example\t/a\n",
		want: wanted{"2000-10-10T13:55:36.123Z", "198.18.0.1", "", "shop.example", "/a", "", "", -1, -1},
	},
	{
		name: "CSV, columns by name", format: "csv", names: "time,ip,-,method,path", text: "971186136,198.18.0.1,x,GET,/a", told: "csv",
		want: wanted{"2000-10-10T13:55:36Z", "198.18.0.1", "GET", "", "/a", "", "", -1, -1},
	},
	{
		name: "CSV, a header with names of one's own", format: "csv", fields: "time=at ip=peer", text: "at,peer\n2000-10-10T13:55:36.1Z,198.18.0.1:4000\n", told: "csv",
		want: wanted{"2000-10-10T13:55:36.1Z", "198.18.0.1", "", "", "", "", "", -1, -1},
	},
}

// read reads the last line of a text as the one who reads a log does.
func read(t *testing.T, format, fields, names, text string) (f Format, r Record, err error) {
	t.Helper()
	say, err := ParseFields(strings.Fields(fields))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	if names != "" {
		columns = strings.Split(names, ",")
	}
	if format == "" {
		format = "auto"
	}
	asked, err := ParseFormat(format, say, columns)
	if err != nil {
		t.Fatal(err)
	}
	s := sniffer{asked: asked, fields: say}
	if err := s.look([]byte(text), true); err != nil || s.format == nil {
		t.Errorf("%s: cannot be told, %v", text, err)
		return nil, r, err
	}
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	return s.format, r, s.format.NewParser().Parse([]byte(lines[len(lines)-1]), &r)
}

func TestSamples(t *testing.T) {
	for _, c := range samples {
		f, r, err := read(t, c.format, c.fields, c.names, c.text)
		if err != nil || f == nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.told == "" {
			c.told = c.format
		}
		got := wanted{
			time.UnixMilli(r.Time).UTC().Format(time.RFC3339Nano), string(r.Address), string(r.Method), string(r.Host),
			string(r.Path), string(r.Query), string(r.UserAgent()), r.Status, r.Bytes,
		}
		lines := strings.Split(strings.TrimRight(c.text, "\r\n"), "\n")
		var brief Record
		if err := newParser(f, true).Parse([]byte(lines[len(lines)-1]), &brief); err != nil || brief.Time != r.Time || string(brief.Address) != string(r.Address) {
			t.Errorf("%s: in brief %v, %d, %s", c.name, err, brief.Time, brief.Address)
		}
		if got != c.want || f.String() != c.told {
			t.Errorf("%s: read as %s\n%+v, want\n%+v", c.name, f, got, c.want)
		}
	}
}

// TestRequestOfARecord: what reads requests gets what the log has.
func TestRequestOfARecord(t *testing.T) {
	_, r, err := read(t, `%{usec}t %h "%r" "%{X-Api-Key}i" %{session}C %{Host}i`, "", "", `971186136123456 2001:db8::1 "GET /a%2Fb%20c?d=%20 HTTP/1.1" "k" s1 shop.example`)
	if err != nil {
		t.Fatal(err)
	}
	q := http.Request{Header: http.Header{"Old": {"x"}}}
	r.Fill(&q)
	session, err := q.Cookie("session")
	if err != nil || session.Value != "s1" || q.Header.Get("X-API-Key") != "k" || q.Header.Get("Old") != "" {
		t.Errorf("%v, %v, %v", err, session, q.Header)
	}
	if q.Method != "GET" || q.Host != "shop.example" || q.URL.Path != "/a/b c" || q.URL.EscapedPath() != "/a%2Fb%20c" || q.URL.RawQuery != "d=%20" || q.RemoteAddr != "[2001:db8::1]:0" {
		t.Errorf("%s %s %s %s %s %s", q.Method, q.Host, q.URL.Path, q.URL.EscapedPath(), q.URL.RawQuery, q.RemoteAddr)
	}
	if string(r.Field("cookie_session")) != "s1" || string(r.Header("x-api-key")) != "k" || r.Header("X-Other") != nil || r.Field("none") != nil {
		t.Errorf("%s, %s", r.Field("cookie_session"), r.Header("x-api-key"))
	}
}

// TestLinesThatTellTooLittle: each has a reason of its own.
func TestLinesThatTellTooLittle(t *testing.T) {
	for _, c := range []struct {
		format, names, line string
		want                error
	}{
		{"json", "", `{"time":"2000-10-10T13:55:36Z"}`, errNoAddress},
		{"json", "", `{"ip":"198.18.0.1"}`, errNoTime},
		{"json", "", `{"ip":"198.18.0.1","time":"soon"}`, errBadTime},
		{"json", "", `{"ip":"host","time":1}`, errNoAddress},
		{"json", "", `{"ip":null,"time":1}`, errNoAddress},
		{"json", "", `{"ip":"198.18.0.1","time":1`, errNoJSON},
		{"json", "", `{"ip":"198.18.0.1","time":1}}`, errNoJSON},
		{"json", "", `{"ip" "198.18.0.1","time":1}`, errNoJSON},
		{"json", "", `["198.18.0.1",1]`, errNoJSON},
		{"csv", "time,ip", `1`, errNoAddress},
		{"csv", "ip,time", `198.18.0.1`, errNoTime},
		{"csv", "ip,time", `198.18.0.1,"1`, errQuote},
		{"csv", "ip,time", `"198.18.0.1"x,1`, errQuote},
		{"$msec $remote_addr", "", `971186136.123`, errNoAddress},
		{"$msec $remote_addr", "", `97118613612.3.4 198.18.0.1`, errBadTime},
		{"[$msec] $remote_addr", "", `971186136.123 198.18.0.1`, errShape},
		{"%{%d/%m/%Y %T}t %h", "", `31/02/2000 00:00:00 198.18.0.1`, errBadTime},
		{"%{msec_frac}t %h %t", "", `123 198.18.0.1`, errBadTime},
	} {
		var names []string
		if c.names != "" {
			names = strings.Split(c.names, ",")
		}
		f, err := ParseFormat(c.format, Fields{}, names)
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := f.NewParser().Parse([]byte(c.line), &r); err != c.want {
			t.Errorf("%s as %s: %v, want %v", c.line, c.format, err, c.want)
		}
	}
}

// TestFormatsThatCannotBe: each says what is wrong with it.
func TestFormatsThatCannotBe(t *testing.T) {
	for format, want := range map[string]string{
		"$remote_addr$msec":        "nothing stands between two fields",
		"$remote_addr $status":     "no field is the time of the request",
		"[$time_local] $host":      "no field is the address of the client",
		"$remote_addr $ $msec":     "a $ is followed by no name",
		"${remote_addr $msec":      "a ${ is not followed by a name and }",
		"%h %Z":                    "%Z is no directive",
		"%h %{Referer":             "a %{ has no }",
		"%h %>":                    "a % is followed by no directive",
		"%h %{%Q}t":                "%Q of the format of the time is not read",
		"%h %{%}t":                 "the format of the time ends in %",
		"xml":                      "allowed is auto, jsonl, common, combined, vhost_combined, alb, json, csv, tsv, or",
		"%h %u \"%r\" %s":          "no field is the time",
		"%l %t":                    "no field is the address",
		"$remote_addr [$msec] ${}": "a ${ is not followed by a name",
	} {
		if _, err := ParseFormat(format, Fields{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", format, err, want)
		}
	}
}

// TestTimes: every way in which logs write one.
func TestTimes(t *testing.T) {
	const at = 971186136 // 2000-10-10T13:55:36Z
	for text, want := range map[string]int64{
		"10/Oct/2000:13:55:36 +0000": at * 1000, "10/Oct/2000:15:55:36.5 +0200": at*1000 + 500,
		"2000-10-10T13:55:36Z": at * 1000, "2000-10-10T13:55:36.1239Z": at*1000 + 123, "2000-10-10t13:55:36,123Z": at*1000 + 123,
		"2000-10-10 13:55:36": at * 1000, "2000-10-10T13:55:36+0000": at * 1000, "2000-10-10T05:55:36.000-08:00": at * 1000,
		"971186136": at * 1000, "971186136.1": at*1000 + 100, "971186136123": at*1000 + 123, "971186136123456": at*1000 + 123,
		"971186136123456789": at*1000 + 123, "9.71186136e8": at * 1000, "0": 0,
	} {
		var c clock
		if got, ok := c.read([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
		if got, ok := c.read([]byte(text)); !ok || got != want {
			t.Errorf("%s, again: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "-", "x", "-1", "+1", "1.", "1.x", "1e99", "NaN", "2000-10-10", "2000-13-10T13:55:36Z", "2000-10-10T13:55:60Z", "2000-10-10T13:55:36.Z",
		"2000-10-10T13:55:36X", "2000-10-10T13:55:36+1", "10/Oct/2000:13:55:36", "10/Oct/2000:13:55:36 +0000 x", "99999999999999999999",
	} {
		var c clock
		if got, ok := c.read([]byte(text)); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
