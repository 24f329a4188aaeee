package serve

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// run binds every address, says what it does, serves, and drains when it is told to end.
func (s *server) run(ctx context.Context) error {
	defer s.backend.close()
	defer runtime.KeepAlive(ballast())
	doors := s.doors()
	all := doors
	if s.admin != "" {
		all = append(all[:len(all):len(all)], s.adminDoor())
	}
	if err := s.bind(all); err != nil {
		return err
	}
	defer closeAll(all)
	defer s.beat(ctx)()
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may go: the proxy stays
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.followRules(ctx)
	s.follow(ctx)
	if s.backend.remote == nil {
		s.try(ctx) // at once, while nobody else is in memory
	}
	go s.bans.Follow(ctx, time.Second)
	s.followCertificates(ctx)
	failed := make(chan error, len(all))
	for _, d := range all {
		go func() { failed <- d.server.Serve(d.listener) }()
	}
	s.announce(all)
	if s.checked.state.Load() != passed {
		go s.tryUntilItPasses(ctx)
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the program at once
	return s.drain(doors)
}

func (s *server) drain(doors []*door) error {
	s.draining.Store(true)
	if s.rls != nil {
		s.rls.Drain()
	}
	s.log.Info("draining: no new connections, requests under way may end", "grace", s.grace.String())
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	err := shutdown(ctx, doors)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were still under way when the grace time was over")
		closeAll(doors)
		return nil
	}
	// Shutdown knows nothing of connections that were taken over, such as WebSockets.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for err == nil && s.underWay.Load() > 0 {
		select {
		case <-ctx.Done():
			s.log.Warn("connections were still open when the grace time was over")
			return nil
		case <-tick.C:
		}
	}
	return err
}

// ballastSize is how much a process holds at least, as the collector sees it, in bytes.
const ballastSize = 16 << 20

// ballast returns memory that nobody touches, so that it takes none of the machine's. The collector runs when the heap has
// doubled, which that of a process that holds little does dozens of times a second; with the ballast it does so seldom, for as
// much again of garbage. GOGC is heeded as ever, and where GOMEMLIMIT is set memory is scarce: then there is none.
func ballast() []byte {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastSize)
}

// mostStreams is how many requests a connection of HTTP/2 may have under way. One that resets them faster than they end is
// closed by net/http.
const mostStreams = 250

// newServer returns a server of requests that are limited. It has no timeout for whole requests and answers: streams may
// last.
func (s *server) newServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.readHeaderTimeout,
		IdleTimeout:       s.idleTimeout,
		MaxHeaderBytes:    s.maxHeader,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: mostStreams},

		DisableGeneralOptionsHandler: true, // OPTIONS * counts as well
		ErrorLog:                     s.debugLog(),
	}
}

// debugLog takes what net/http says of single connections: a log that grows with the traffic is a
// way to fill a disk.
func (s *server) debugLog() *log.Logger {
	return slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
}
