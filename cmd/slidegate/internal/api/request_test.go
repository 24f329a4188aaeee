package api

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzRequest: what is understood is what encoding/json reads, within the bounds, and a batch of one is the same.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"key":"a"}`, `{"key":"a","cost":0,"limiter":"x"}`, ` { "key" : "\u00e9\n😀" } `, `{"key":"a","cost":1000000000000}`, `{"key":"a","cost":-0}`,
		`{"key":"a","Key":"b"}`, `{"key":"a","key":"b"}`, `{"key":"\ud800"}`, "{\"key\":\"\xff\"}", `{"key":"a"}x`, `{"key":["a"]}`, `{"key":"a","cost":1e0}`, `{`, ``, `{"cost":1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseRequest(body, take)
		many, batchErr := parseBatch([]byte(`{"requests":[` + string(body) + `]}`))
		if err != nil {
			if q2, err := parseRequest(body, ""); err == nil && q2.op == take && batchErr != nil {
				t.Errorf("%q alone says %+v, in a batch %v", body, q2, batchErr)
			}
			return
		}
		var same struct {
			Key, Limiter string
			Cost         *int64
		}
		if err := json.Unmarshal(body, &same); err != nil {
			t.Fatalf("%q is no JSON: %v", body, err)
		}
		cost := int64(1)
		if same.Cost != nil {
			cost = *same.Cost
		}
		if q.key != same.Key || q.limiter != same.Limiter || q.cost != cost || q.key == "" || len(q.key) > maxKey || !utf8.ValidString(q.key) || cost < 0 || cost > maxCost {
			t.Errorf("%q is %+v", body, q)
		}
		if batchErr != nil || len(many) != 1 || many[0] != q {
			t.Errorf("%q is %+v alone, and %+v in a batch: %v", body, q, many, batchErr)
		}
	})
}
