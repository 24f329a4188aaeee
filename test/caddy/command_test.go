package caddy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs the program with a Caddyfile and returns what it prints, and its status.
func run(t *testing.T, caddyfile string, args ...string) (output string, status int) {
	t.Helper()
	s := &server{t: t, dir: t.TempDir()}
	path := s.write(caddyfile)
	cmd := exec.Command(binary, append(args, "--config", path, "--adapter", "caddyfile")...)
	cmd.Env = append(s.environment(), "REDIS_PASSWORD=secret", "SLIDEGATE_SECRET=0123456789abcdef0123456789abcdef")
	text, _ := cmd.CombinedOutput() // its error is the status
	return strings.ReplaceAll(string(text), path, "Caddyfile"), cmd.ProcessState.ExitCode()
}

// page is docs/caddy.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "caddy.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentedConfigurationsAreValid, and written as caddy fmt would.
func TestDocumentedConfigurationsAreValid(t *testing.T) {
	blocks := strings.Split(page(t), "```caddyfile\n")[1:]
	if len(blocks) < 2 {
		t.Errorf("docs/caddy.md has %d Caddyfiles", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if text, status := run(t, block, "validate"); status != 0 || strings.Contains(text, "not formatted") {
			t.Errorf("status %d for\n%s\n%s", status, block, text)
		}
	}
}

// TestDocumentedCommandsRun: the one that builds is what TestMain ran.
func TestDocumentedCommandsRun(t *testing.T) {
	_, commands, _ := strings.Cut(page(t), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	if want := build + "\nbin/caddy list-modules\n"; commands != want {
		t.Errorf("the commands of docs/caddy.md are\n%s, want\n%s", commands, want)
	}
	out, err := exec.Command(binary, "list-modules").Output()
	if err != nil || !strings.Contains(string(out), "http.handlers.slidegate\n") {
		t.Errorf("list-modules: %v\n%s", err, out)
	}
}

// TestDocumentedSyntaxIsThatOfTheCode: the page and the package show the same block.
func TestDocumentedSyntaxIsThatOfTheCode(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "caddygate", "caddyfile.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, syntax, _ := strings.Cut(page(t), "```text\n")
	syntax, _, _ = strings.Cut(syntax, "```")
	_, comment, _ := strings.Cut(string(source), "The syntax is\n//\n")
	comment, _, _ = strings.Cut(comment, "//\n//")
	if comment = strings.ReplaceAll(comment, "//\t", ""); syntax == "" || comment != syntax {
		t.Errorf("docs/caddy.md shows\n%s, the code\n%s", syntax, comment)
	}
}

// TestMistakes: what the commands say of them names the place.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ block, want string }{
		{"limit 5/x", `5/x\": the window \"x\" is not a duration such as 10s, 15m, 1h or 1d, at Caddyfile:3`},
		{"zone a", "no limit: give one, as in limit burst=10/1s, at Caddyfile:"},
		{"limit 1/s\nrate 5", `unknown subdirective \"rate\"`},
		{"limit 1/s\nstore redis://:hunter2@127.0.0.1/x", "a database is a whole number from 0"},
	} {
		for _, command := range []string{"adapt", "validate"} {
			text, status := run(t, "http:// {\nslidegate {\n"+c.block+"\n}\n}\n", command)
			if status != 1 || !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
				t.Errorf("%s of %s: status %d: %s", command, c.block, status, text)
			}
		}
	}
	// What only the environment can tell is told by validate.
	text, status := run(t, "http:// {\nslidegate {\nlimit 1/s\nstore redis://127.0.0.1 {\npassword {env.NO_SUCH_VARIABLE}\n}\n}\n}\n", "validate")
	if status != 1 || !strings.Contains(text, "store: password: evaluated placeholder {env.NO_SUCH_VARIABLE} is empty") {
		t.Errorf("validate without the variable: status %d: %s", status, text)
	}
}
