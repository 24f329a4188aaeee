package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/httpgate"
)

// patience is how long a server may take: somebody at a terminal waits.
const patience = 10 * time.Second

// mostAnswered is the longest answer that is read, in bytes.
const mostAnswered = 64 << 20

// A server is an admin door.
type server struct {
	name, base, token string
	client            *http.Client
}

func newServer(address, tokenFile string) (*server, error) {
	token, err := config.ReadToken("admin-token-file", tokenFile, config.AdminToken)
	if err != nil {
		return nil, err
	}
	s := &server{name: address, token: token, base: "http://localhost", client: &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token is for one server
	}}
	transport := &http.Transport{} // and no proxy in between
	s.client.Transport = transport
	if path, ok := admin.SocketPath(address); ok && path != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return s, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery+u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return nil, config.Usagef("--server %q: allowed is unix:/PATH or http://HOST:PORT, which is that of --admin", address)
	}
	s.base = u.Scheme + "://" + u.Host
	return s, nil
}

// ask sends a request, a POST if it has a body, and returns the answer to one that was understood and done.
func (s *server) ask(ctx context.Context, path string, body any) ([]byte, error) {
	defer s.client.CloseIdleConnections()
	method, in := http.MethodGet, []byte(nil)
	if m, ok := body.(map[string]any); ok && m != nil {
		method = http.MethodPost
		in, _ = json.Marshal(m) // of strings and numbers
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/problem+json")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, s.unavailable(unwrapped(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswered))
	if err != nil {
		return nil, s.unavailable(err)
	}
	return answer, s.judge(resp, answer)
}

// judge returns the error of an answer that is none.
func (s *server) judge(resp *http.Response, answer []byte) error {
	if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "application/json" {
		return nil
	}
	var p httpgate.Problem
	if json.Unmarshal(answer, &p) != nil || p.Detail == "" {
		return s.unavailable(fmt.Errorf("status %d: %w", resp.StatusCode, errStranger))
	}
	err := fmt.Errorf("%s: %s", s.name, p.Detail)
	switch resp.StatusCode {
	case http.StatusServiceUnavailable:
		return &config.ExitError{Status: statusUnavailable, Err: err}
	default:
		return &config.ExitError{Status: statusRefused, Err: err}
	}
}

func (s *server) unavailable(err error) error {
	return &config.ExitError{Status: statusUnavailable, Err: fmt.Errorf("--server %s: %w", s.name, err)}
}

// unwrapped is an error of net/http without the URL, which says less than the name of the server.
func unwrapped(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}
