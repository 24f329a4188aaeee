package serve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// run binds every address, says what it does, serves, and drains when it is told to end.
func (s *server) run(ctx context.Context) error {
	defer s.backend.close()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	var adminListener net.Listener
	if s.admin != "" {
		if adminListener, err = net.Listen("tcp", s.admin); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
		defer adminListener.Close()
	}
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may go: the proxy stays
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	front := s.frontServer()
	failed := make(chan error, 2)
	go func() { failed <- front.Serve(listener) }()
	if adminListener != nil {
		admin := &http.Server{Handler: s.adminHandler(), ReadHeaderTimeout: s.readHeaderTimeout, IdleTimeout: s.idleTimeout, ErrorLog: s.debugLog()}
		go func() { failed <- admin.Serve(adminListener) }()
		defer admin.Close()
	}
	s.announce(listener, adminListener)
	go s.lookFirst(ctx)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the program at once
	return s.drain(front)
}

func (s *server) drain(front *http.Server) error {
	s.draining.Store(true)
	s.log.Info("draining: no new connections, requests under way may end", "grace", s.grace.String())
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	err := front.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were still under way when the grace time was over")
		front.Close()
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

// frontServer has no timeout for whole requests and answers: streams may last.
func (s *server) frontServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.gate.Wrap(s.around(s.behind())),
		ReadHeaderTimeout: s.readHeaderTimeout,
		IdleTimeout:       s.idleTimeout,
		Protocols:         protocols,

		DisableGeneralOptionsHandler: true, // OPTIONS * counts as well
		ErrorLog:                     s.debugLog(),
	}
}

// debugLog takes what net/http says of single connections: a log that grows with the traffic is a
// way to fill a disk.
func (s *server) debugLog() *log.Logger {
	return slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
}
