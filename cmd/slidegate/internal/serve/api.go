package serve

import (
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/api"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/httpgate"
)

// newAPI makes the JSON door, if it is to be.
func (s *server) newAPI() error {
	if s.apiListen == "" {
		return config.RefuseFlags(s.given, "it is about --api-listen, which is not given", "api-token-file")
	}
	token, err := config.ReadToken("api-token-file", s.apiTokenFile, config.APIToken)
	if err != nil {
		return err
	}
	s.hasToken = token != ""
	s.api, err = api.New(api.Config{
		Limiter: s.limiterOf,
		Token:   token,
		Gate: []httpgate.Option{
			httpgate.Headers(s.formats...), httpgate.Logger(s.log), httpgate.WithoutOutages(),
			httpgate.Observe(s.observeAPI),
		},
	})
	return err
}

// limiterOf returns the limiter of a name: that of --limit has none, and those of a file have those of their rules.
func (s *server) limiterOf(name string) *slidegate.Limiter {
	switch {
	case s.live != nil:
		return s.live.Engine().Limiter(name)
	case name == "":
		return s.limiter
	}
	return nil
}

func (s *server) observeAPI(e *httpgate.Event) {
	if s.live != nil {
		s.observeRules(&rules.Event{Event: e})
		return
	}
	s.observe(e)
}

// whoMayAsk says who may ask the JSON door.
func (s *server) whoMayAsk() string {
	if s.hasToken {
		return "whoever shows the token may ask"
	}
	return "whoever can connect may ask, and reset a key"
}

// apiWriteTimeout is how long a caller may take to read its answer, which is short.
const apiWriteTimeout = 30 * time.Second

// apiServer bounds whole requests too, for they are short.
func (s *server) apiServer() *http.Server {
	server := s.newServer(s.admit(s.api))
	server.ReadTimeout = s.readHeaderTimeout
	server.WriteTimeout = apiWriteTimeout
	server.MaxHeaderBytes = min(s.maxHeader, 16<<10)
	return server
}
