package rules_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/memstore"
)

func ExampleRead() {
	_, err := rules.Read("rules.yaml", []byte("rules:\n- name: login\n  limts: 5/soon\n"), nil)
	fmt.Println(err)
	_, err = rules.Read("rules.yaml", []byte("rules:\n- name: login\n  limits: 5/soon\n"), nil)
	fmt.Println(err)
	// Output:
	// rules.yaml:2: rule 1 has no limits: it needs one
	// rules.yaml:3: unknown field "limts" in rule 1: did you mean "limits"? allowed is name, host, path, methods, request-headers, clients, key, limits, cost, mode, on-store-error, headers, response, ban, refund-if-status, plans, plan-by, overrides, overrides-file or upstream
	// rules.yaml:3: limits "5/soon": the window "soon" is not a duration such as 10s, 15m, 1h or 1d
}

func ExampleDiff() {
	before, _ := rules.Read("rules.yaml", []byte("rules: [{name: login, limits: 5/15m}]"), nil)
	after, _ := rules.Read("rules.yaml", []byte("rules: [{name: login, limits: 50/15m}]"), nil)
	for _, change := range rules.Diff(before, after) {
		fmt.Println(change, change.IsLarge())
	}
	// Output: login: 5/15m → 50/15m, 10 times looser true
}

func ExampleEngine() {
	file, _ := rules.Read("rules.yaml", []byte("rules: [{name: login, path: /login, limits: 1/15m}]"), nil)
	store := memstore.New()
	defer store.Close()
	engine, err := rules.New(file, rules.Options{Store: store})
	if err != nil {
		panic(err)
	}
	h := engine.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/login", "/login", "/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /login 200
	// /login 429
	// / 200
}
