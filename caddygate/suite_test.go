package caddygate

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/slidegate/slidegate/httpgate"
	"github.com/slidegate/slidegate/httpgate/httpgatetest"
)

func init() {
	caddy.RegisterModule(suiteGate{})
	caddy.RegisterModule(suiteApp{})
}

// given are the gates and apps that the modules of the tests find by the number in their configuration.
var given struct {
	sync.Mutex
	all []any
}

func give(v any) int {
	given.Lock()
	defer given.Unlock()
	given.all = append(given.all, v)
	return len(given.all) - 1
}

func taken(n int) any {
	given.Lock()
	defer given.Unlock()
	return given.all[n]
}

// A suiteGate is a Handler whose gate comes from the suite and not from the configuration, for that speaks
// of stores and functions that no configuration can name.
type suiteGate struct {
	Number int `json:"number"`
	Handler
}

func (suiteGate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.suite_gate", New: func() caddy.Module { return new(suiteGate) }}
}

func (g *suiteGate) Provision(caddy.Context) error {
	g.gate = taken(g.Number).(*httpgate.Gate)
	return nil
}

// A suiteApp serves the routes of the suite.
type suiteApp struct {
	Number int `json:"number"`
	routes http.Handler
}

func (suiteApp) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.suite_app", New: func() caddy.Module { return new(suiteApp) }}
}

func (a *suiteApp) Provision(caddy.Context) error {
	a.routes = taken(a.Number).(http.Handler)
	return nil
}

func (a *suiteApp) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	a.routes.ServeHTTP(w, r)
	return nil
}

type object = map[string]any

// running are the servers of the Caddy in this process, by name. There is one Caddy, so a server more
// is a reload.
var running = object{}

// reload gives Caddy the servers that are running.
func reload() error {
	config, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"logging": object{"logs": object{"default": object{"writer": object{"output": "discard"}}}},
		"apps":    object{"http": object{"servers": running}},
	})
	return errors.Join(err, caddy.Load(config, true))
}

// listen starts a server with routes on a free port of a host, until the test is over.
func listen(t testing.TB, host string, routes ...object) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	name := strconv.Itoa(give(nil))
	running[name] = object{"listen": []string{address}, "automatic_https": object{"disable": true}, "routes": routes}
	if err := errors.Join(l.Close(), reload()); err != nil {
		delete(running, name)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if delete(running, name); len(running) == 0 {
			err = caddy.Stop()
		} else {
			err = reload()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return address
}

// behind is a route with gates of the suite.
func behind(path string, gates []httpgatetest.Gate) object {
	handlers := []object{}
	for _, g := range gates {
		handlers = append(handlers, object{"handler": "suite_gate", "number": give(g.Build())})
	}
	return object{"match": []object{{"path": []string{path}}}, "handle": handlers}
}

// TestSuite: inside Caddy, a gate does what it does in a program.
func TestSuite(t *testing.T) {
	httpgatetest.Run(t, func(t testing.TB, app *httpgatetest.App) string {
		return listen(t, app.Host, behind("*", app.All), behind("/group/*", app.Group), behind("/alone", app.Alone),
			object{"handle": []object{{"handler": "suite_app", "number": give(app.Handler())}}})
	})
}
