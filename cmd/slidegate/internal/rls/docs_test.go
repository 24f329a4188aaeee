package rls_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
)

// TestThePage: the rules of docs/envoy.md load and do what is said of them, its configuration is one of Envoy, and the
// message that it shows is that of the mistake.
func TestThePage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	var ruleFile, envoy string
	for fence := range strings.SplitSeq(string(page), "```yaml\n") {
		text, _, _ := strings.Cut(fence, "```")
		switch {
		case strings.HasPrefix(text, "domain: "):
			ruleFile = text
		case strings.HasPrefix(text, "static_resources:"):
			envoy = text
		}
	}
	var tree any
	if err := yaml.Unmarshal([]byte(envoy), &tree); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var bootstrap bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &bootstrap); err != nil {
		t.Error(err)
	} else if err := bootstrap.ValidateAll(); err != nil {
		t.Error(err)
	}
	r := inMemory(t, strings.Replace(ruleFile, "domain: edge", "domain: d", 1), rls.Options{})
	for text, want := range map[string]uint32{
		"remote_address=x": 100, "path=/api/x": 500, "path=/api/v1/uploads": 1000, "plan=free,user=u": 1000, "plan=paid,user=u": 0, "plan=free": 0, "tokens=u": 100000, "agent=x": 50,
	} {
		if got := r.ask(entries(text)).GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(); got != want {
			t.Errorf("%s: a limit of %d, want %d", text, got, want)
		}
	}
	_, err = rules.Read([]rules.File{{Name: "rules/edge.yaml", Text: []byte("domain: edge\ndescriptors:\n  - key: user\n    rate_limit:\n      unlimied: true\n")}})
	if err == nil || !strings.Contains(string(page), strings.Split(err.Error(), "\n")[1]+"\n") {
		t.Errorf("the page does not show %v", err)
	}
}
