package api

import (
	"encoding/json"
	"math"
	"testing"
)

// TestAnswersAreWhatEncodingJSONWrites, for limits of every name that there may be.
func TestAnswersAreWhatEncodingJSONWrites(t *testing.T) {
	limits := []Limit{
		{Name: "100/1m", Quota: 100, WindowMS: 60_000, Remaining: 99, ResetMS: 1},
		{Name: `a"b\c<d>&e`, Quota: math.MaxInt64, RetryMS: 86_400_000, Refuses: true},
		{Name: "the last' one/~"},
	}
	for _, a := range []Answer{
		{Limits: []Limit{}},
		{Allowed: true, Cost: 1, Time: 1_700_000_000_000, Remaining: 99, ResetMS: 1, Binding: "100/1m", Limits: limits[:1]},
		{Cost: math.MinInt64, Remaining: -1, RetryMS: math.MaxInt64, Binding: limits[1].Name, Limits: limits},
	} {
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.appendTo(nil); string(got) != string(want) {
			t.Errorf("wrote  %s\nwant %s", got, want)
		}
	}
}
