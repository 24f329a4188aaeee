// Package vectors has cases with the answers of the reference implementation, for the tests of package rls and below.
package vectors

import (
	_ "embed"
	"encoding/json"
	"testing"
)

//go:embed vectors.json
var text []byte

// Each calls f with the cases of an area, such as rls.match, input and answer read into In and Want. There must be one.
func Each[In, Want any](t *testing.T, area string, f func(id string, in In, want Want)) {
	t.Helper()
	var all []struct {
		ID, Area      string
		Input, Expect json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range all {
		if v.Area != area {
			continue
		}
		var in In
		var want Want
		if err := json.Unmarshal(v.Input, &in); err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		if err := json.Unmarshal(v.Expect, &want); err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		f(v.ID, in, want)
		n++
	}
	if n == 0 {
		t.Errorf("no case of %s", area)
	}
}
