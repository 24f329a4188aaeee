package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
)

const (
	slidegateCommand = "github.com/slidegate/slidegate/cmd/slidegate"
	bareCommand      = "github.com/slidegate/slidegate/test/bench/bare"
)

// httpConnections is how many a client of HTTP has.
const httpConnections = 16

// httpDoors are a door of slidegate and a server that answers the same bytes.
func httpDoors(name string, requests func() []string, start func(*Doors) (string, error)) []Door {
	connectTo := func(addr string, err error) (asker, error) {
		if err != nil {
			return nil, err
		}
		return connect(addr, httpConnections, requests())
	}
	return []Door{
		{name, func(s *Doors) (asker, error) { return connectTo(start(s)) }},
		{BareHTTP, func(s *Doors) (asker, error) {
			addr, err := start(s)
			if err != nil {
				return nil, err
			}
			return connectTo(s.startBare(addr, requests()[0]))
		}},
	}
}

// authRequests are those of nginx, from many clients.
var authRequests = sync.OnceValue(func() []string {
	all := make([]string, doorKeys)
	for i := range all {
		all[i] = fmt.Sprintf("GET /auth HTTP/1.1\r\nHost: api.example\r\nX-Original-Method: GET\r\nX-Original-URI: /orders/7?page=2\r\n"+
			"X-Forwarded-For: 198.18.%d.%d\r\nX-Forwarded-Proto: https\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", i>>8, i&0xff)
	}
	return all
})

var jsonRequests = sync.OnceValue(func() []string {
	all := make([]string, doorKeys)
	for i, key := range TenThousand() {
		body := fmt.Sprintf(`{"key":%q}`, key)
		all[i] = fmt.Sprintf("POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return all
})

func startAuth(s *Doors) (string, error) {
	return s.programs.start(slidegateCommand, func(cmd *exec.Cmd, addr string) {
		cmd.Args = append(cmd.Args, "serve", "--listen", "", "--admin", "", "--limit", doorLimit, "--auth-dialect", "nginx", "--auth-listen", addr)
	})
}

func startJSON(s *Doors) (string, error) {
	return s.programs.start(slidegateCommand, func(cmd *exec.Cmd, addr string) {
		cmd.Args = append(cmd.Args, "serve", "--listen", "", "--admin", "", "--limit", doorLimit, "--api-listen", addr)
	})
}

// startBare starts a server of net/http that answers what the server at addr says to a request.
func (s *Doors) startBare(addr, request string) (string, error) {
	all, err := connect(addr, 1, []string{request})
	if err != nil {
		return "", err
	}
	defer all.Close()
	if _, err := io.WriteString(all[0].Conn, request); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(all[0].in, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	resp.Header.Del("Date") // net/http writes its own
	answer, err := json.Marshal(map[string]any{"Header": resp.Header, "Body": body})
	if err != nil {
		return "", err
	}
	return s.programs.start(bareCommand, func(cmd *exec.Cmd, addr string) {
		cmd.Args = append(cmd.Args, "-listen", addr)
		cmd.Stdin = bytes.NewReader(answer)
	})
}
