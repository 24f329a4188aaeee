package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Server is a real Redis or Valkey on 127.0.0.1, which its test can stop, freeze, kill and start
// again on the same port.
type Server struct {
	Addr   string // host and port
	Port   int
	Dir    string // its directory: a saved dump.rdb, the file log, a Unix socket
	Socket string // path of its Unix socket

	t        testing.TB
	binary   string
	mode     string   // "", or "--sentinel"
	config   []string // lines
	password string
	tls      *certificate
	process  *process
	frozen   bool
}

// An Option says how a server differs from one without a password, without TLS and without a disk.
type Option func(*Server)

// With adds a line to the configuration of the server: a directive and its values.
func With(directive string, values ...string) Option {
	return func(s *Server) { s.configure(directive, values...) }
}

// WithPassword lets only those in who say the password: requirepass. There is none unless said so.
func WithPassword(password string) Option {
	return func(s *Server) {
		s.password = password
		s.configure("requirepass", password)
		s.configure("masterauth", password)
	}
}

// WithTLS makes the port speak TLS alone, with a certificate that [Server.TLSConfig] trusts. It is
// for servers without others, that is for [Standalone] and [NewServer].
func WithTLS() Option {
	return func(s *Server) { s.tls = newCertificate(s.t, s.Dir) }
}

// Standalone starts a server and stops it when the test ends. It is empty, on a port of its own,
// and keeps nothing on disk unless it is told to.
func Standalone(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := newServer(t, options...)
	s.Start()
	return s
}

// NewServer is Standalone for a server that is started later, with [Server.Start]: until then
// connections to its address are refused.
func NewServer(t testing.TB, options ...Option) *Server {
	t.Helper()
	return newServer(t, options...)
}

func newServer(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, binary: Binary(t), Dir: newDir(t), Port: reservePort(t)}
	s.Addr = addrOf(s.Port)
	s.Socket = filepath.Join(s.Dir, "socket")
	s.configure("bind", "127.0.0.1")
	s.configure("unixsocket", s.Socket)
	s.configure("save", "")
	s.configure("appendonly", "no")
	s.configure("protected-mode", "no")
	if majorVersion(t, s.binary) >= 7 { // older ones know no such directive and always allow DEBUG
		s.configure("enable-debug-command", "yes")
	}
	for _, o := range options {
		o(s)
	}
	t.Cleanup(s.end)
	return s
}

func (s *Server) configure(directive string, values ...string) {
	line := directive
	for _, v := range values {
		line += " " + quote(v)
	}
	s.config = append(s.config, line)
}

// quote writes a value as the configuration file of Redis has it, whatever its bytes.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// Start starts the server, if it does not run, and returns when it answers and has loaded what it saved.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	Await(s.t, startTime, "a server that answers", func() bool {
		_, err := s.Try("PING")
		return err == nil
	})
}

// Launch is Start for a server that may take its time: it returns when the server listens, and may
// be loading.
func (s *Server) Launch() {
	s.t.Helper()
	if s.Running() {
		return
	}
	s.frozen = false
	var err error
	// The port is ours. But a process that this one starts meanwhile has, until it runs its own program, all
	// that is open here, and so keeps a port for a moment on which nobody listens any more.
	poll(startTime, func() bool {
		err = s.launch()
		return err == nil || !strings.Contains(logTail(s.Dir), "Address already in use")
	})
	if err != nil {
		s.t.Fatalf("redistest: %s does not start: %v\n%s", s.binary, err, logTail(s.Dir))
	}
}

func (s *Server) launch() error {
	if err := s.writeConfig(); err != nil {
		return err
	}
	args := []string{"redis.conf"}
	if s.mode != "" {
		args = append(args, s.mode)
	}
	p, err := launch(s.Dir, s.binary, args...)
	if err != nil {
		return err
	}
	s.process = p
	if !poll(startTime, func() bool { return p.ended() || s.isOurs() }) {
		p.kill()
		return fmt.Errorf("no answer within %s", startTime)
	}
	if p.ended() {
		return fmt.Errorf("it ended: %v", p.err)
	}
	return nil
}

// isOurs tells whether it is our process that answers at the address.
func (s *Server) isOurs() bool {
	info, err := s.tryInfo("server")
	return err == nil && info["process_id"] == strconv.Itoa(s.process.pid)
}

func (s *Server) writeConfig() error {
	path := filepath.Join(s.Dir, "redis.conf")
	if s.mode != "" {
		if _, err := os.Stat(path); err == nil {
			return nil // a sentinel keeps what it knows in there
		}
	}
	return os.WriteFile(path, []byte(strings.Join(s.lines(), "\n")+"\n"), 0o600)
}

func (s *Server) lines() []string {
	port := []string{"port " + strconv.Itoa(s.Port)}
	if s.tls != nil {
		port = s.tls.lines(s.Port)
	}
	return append(port, s.config...)
}

// end is Kill for a server that may have ended.
func (s *Server) end() {
	if s.process != nil {
		s.process.kill()
	}
}

// Running tells whether the process of the server lives, frozen or not.
func (s *Server) Running() bool { return s.process != nil && !s.process.ended() }

// PID returns the process of the server.
func (s *Server) PID() int { return s.process.pid }

// Stop ends the server in the orderly way and forgets its data.
func (s *Server) Stop() {
	s.t.Helper()
	s.shutdown("NOSAVE")
	os.Remove(filepath.Join(s.Dir, "dump.rdb"))
}

// StopAndSave ends the server in the orderly way. What it held is there again after Start.
func (s *Server) StopAndSave() {
	s.t.Helper()
	s.shutdown("SAVE")
}

func (s *Server) shutdown(how string) {
	s.t.Helper()
	if !s.Running() {
		return
	}
	s.Thaw()
	if _, err := s.Try("SHUTDOWN", how); err != nil && isReply(err) {
		s.t.Fatalf("redistest: SHUTDOWN %s: %v", how, err)
	}
	if !s.process.waitFor(startTime) {
		s.t.Fatalf("redistest: the server has not stopped within %s\n%s", startTime, logTail(s.Dir))
	}
}

func isReply(err error) bool {
	var e ErrorReply
	return errors.As(err, &e)
}

// Kill ends the server as a crash does: at once, and with nothing saved since.
func (s *Server) Kill() {
	if s.Running() {
		s.process.kill()
	}
}

// Restart stops the server, forgets its data, and starts it again.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Freeze makes the server stand still: it keeps its connections, and others connect to it, but
// nothing is answered until Thaw.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	s.frozen = true
}

// Thaw lets a frozen server go on, with what was sent to it meanwhile.
func (s *Server) Thaw() {
	s.t.Helper()
	if s.frozen {
		s.signal(syscall.SIGCONT)
		s.frozen = false
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.signal(sig); err != nil {
		s.t.Fatalf("redistest: %s: %v", sig, err)
	}
}

// Pause lets no client's command run for a while: CLIENT PAUSE.
func (s *Server) Pause(d time.Duration) {
	s.t.Helper()
	s.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10))
}

// Do sends one command on a connection of its own and returns the reply, as [Conn.Do] has it. A
// reply that is an error fails the test.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("redistest: %s: %v", args[0], err)
	}
	return reply
}

// Int is Do for a command that answers with an integer.
func (s *Server) Int(args ...string) int64 {
	s.t.Helper()
	n, ok := s.Do(args...).(int64)
	if !ok {
		s.t.Fatalf("redistest: %s did not answer with an integer", args[0])
	}
	return n
}

// Text is Do for a command that answers with a string, or with null, which is "" here.
func (s *Server) Text(args ...string) string {
	s.t.Helper()
	reply := s.Do(args...)
	text, ok := reply.(string)
	if !ok && reply != nil {
		s.t.Fatalf("redistest: %s did not answer with a string", args[0])
	}
	return text
}

// Try is Do for a command that may fail, in any goroutine.
func (s *Server) Try(args ...string) (any, error) {
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// Dial connects to the server, says the password if there is one, and may be called from any goroutine.
func (s *Server) Dial() (*Conn, error) {
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	c := newConn(conn)
	if s.password == "" {
		return c, nil
	}
	if _, err := c.Do("AUTH", s.password); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (s *Server) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	defer cancel()
	if s.tls == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	}
	return (&tls.Dialer{Config: s.TLSConfig()}).DialContext(ctx, "tcp", s.Addr)
}

// URL is how people name the server: redis://127.0.0.1:6379/0, rediss:// with TLS, with the
// password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr, Path: "/0"}
	if s.tls != nil {
		u.Scheme = "rediss"
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Flush removes every key: FLUSHALL.
func (s *Server) Flush() {
	s.t.Helper()
	s.Do("FLUSHALL")
}

// Set changes a directive of the configuration while the server runs: CONFIG SET. It is lost when
// the server stops.
func (s *Server) Set(directive, value string) {
	s.t.Helper()
	s.Do("CONFIG", "SET", directive, value)
}

// Configure adds a line to the configuration that the server reads at its next start.
func (s *Server) Configure(directive string, values ...string) { s.configure(directive, values...) }

// User makes a user with a password and the given rules: ACL SETUSER. A user of that name is
// forgotten first.
func (s *Server) User(name, password string, rules ...string) {
	s.t.Helper()
	s.Do(append([]string{"ACL", "SETUSER", name, "reset", "on", ">" + password}, rules...)...)
}

// Info returns the fields of a section of INFO.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	info, err := s.tryInfo(section)
	if err != nil {
		s.t.Fatalf("redistest: INFO %s: %v", section, err)
	}
	return info
}

func (s *Server) tryInfo(section string) (map[string]string, error) {
	reply, err := s.Try("INFO", section)
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	return fields(text), nil
}

// fields reads lines of the form name:value.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// Version returns what the server is: "redis 7.0.15", "valkey 8.1.1".
func (s *Server) Version() string {
	s.t.Helper()
	info := s.Info("server")
	if v := info["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return "redis " + info["redis_version"]
}

// Calls returns how often each command was called since the start or [Server.ResetCalls], by its
// name in lower case. Commands that scripts call are counted as well, in their own name.
func (s *Server) Calls() map[string]int64 {
	s.t.Helper()
	calls := map[string]int64{}
	for name, value := range s.Info("commandstats") {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		count, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(count, 10, 64)
		if ok && err == nil {
			calls[command] = n
		}
	}
	return calls
}

// ResetCalls begins counting anew: CONFIG RESETSTAT.
func (s *Server) ResetCalls() {
	s.t.Helper()
	s.Do("CONFIG", "RESETSTAT")
}

// Keys returns every key, in no order.
func (s *Server) Keys() []string {
	s.t.Helper()
	reply, _ := s.Do("KEYS", "*").([]any)
	keys := make([]string, 0, len(reply))
	for _, k := range reply {
		key, _ := k.(string)
		keys = append(keys, key)
	}
	return keys
}
