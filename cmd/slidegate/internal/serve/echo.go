package serve

import (
	"encoding/json"
	"net/http"

	"github.com/slidegate/slidegate/httpgate"
)

// An answer is what an echo says: what was asked, of whom, and how the limits stand.
type answer struct {
	Method string     `json:"method"`
	Path   string     `json:"path"`
	Client string     `json:"client"` // its address
	Limits []standing `json:"limits"` // none where the request could not be decided
}

type standing struct {
	Name      string `json:"name"`
	Quota     int64  `json:"quota"`
	Remaining int64  `json:"remaining"`
	ResetMS   int64  `json:"reset_ms"`
}

// echo answers in the place of an upstream.
func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	a := answer{Method: r.Method, Path: r.URL.Path, Limits: []standing{}}
	if addr, _ := s.addresses.Find(r); addr.IsValid() {
		a.Client = addr.String()
	}
	if d, ok := httpgate.FromContext(r.Context()); ok {
		for i := range d.Len() {
			st := d.State(i)
			a.Limits = append(a.Limits, standing{st.Limit.Name, st.Limit.Quota, st.Remaining, st.ResetIn.Milliseconds()})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(a) // the client's going away is no concern here
}
