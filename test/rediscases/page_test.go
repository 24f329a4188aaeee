package rediscases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	rueidisstore "github.com/slidegate/slidegate/redisstore/rueidis"
	"github.com/slidegate/slidegate/test/redistest"
)

// root is the directory of the repository.
var root = filepath.Join("..", "..")

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readPage(t *testing.T) string { return readFile(t, "docs", "redis.md") }

var fencePattern = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// fences returns what stands in fences of a language.
func fences(t *testing.T, page, language string) (texts []string) {
	t.Helper()
	for _, m := range fencePattern.FindAllStringSubmatch(page, -1) {
		if m[1] == language {
			texts = append(texts, m[2])
		}
	}
	if len(texts) == 0 {
		t.Fatalf("nothing is in fences of %s", language)
	}
	return texts
}

const pageAddr = "127.0.0.1:6379" // of Redis, wherever the page or compose.yaml has an address

// build compiles a program in the directory of a module.
func build(t *testing.T, module string, args ...string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-w", "-o", binary}, buildFlags, args)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// TestProgramsOfThePage build, and limit as the page says: one prints, one serves.
func TestProgramsOfThePage(t *testing.T) {
	server := redistest.Standalone(t)
	var programs []string
	for _, text := range fences(t, readPage(t), "go") {
		if !strings.HasPrefix(text, "package main\n") {
			if !strings.Contains(readFile(t, "test", "rediscases", "valkey_test.go"), text) {
				t.Errorf("no test has this:\n%s", text)
			}
			continue
		}
		const listen = "127.0.0.1:8080"
		text = strings.ReplaceAll(text, pageAddr, server.Addr)
		text = strings.ReplaceAll(text, listen, redistest.NewServer(t).Addr) // a free port
		source := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, text, build(t, "..", source))
	}
	if len(programs) != 4 {
		t.Fatalf("%d programs, want 2", len(programs)/2)
	}
	out, err := exec.Command(programs[1]).CombinedOutput()
	if want := fences(t, readPage(t), "text")[0]; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v; the page says %q", out, err, want)
	}
	_, rest, _ := strings.Cut(programs[2], `ListenAndServe("`)
	addr, _, _ := strings.Cut(rest, `"`)
	start(t, exec.Command(programs[3]))
	equal(t, "statuses of 101 requests", statuses(t, "http://"+addr, 101), "100 200, 1 429")
}

// start starts a program and ends it with the test. What it says is shown if the test fails.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var said syncBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if cmd.Wait(); t.Failed() {
			t.Logf("%s said:\n%s", cmd.Path, said.String())
		}
	})
}

// statuses sends n requests to a server as soon as it is there, and counts what it answers.
func statuses(t *testing.T, url string, n int) string {
	t.Helper()
	client := http.Client{Timeout: generous, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	count := map[int]int{}
	ask := func() bool {
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		count[resp.StatusCode]++
		return true
	}
	redistest.Await(t, generous, "a server on "+url, ask)
	for range n - 1 {
		if !ask() {
			t.Fatalf("%s does not answer any more", url)
		}
	}
	var all []string
	for _, status := range []int{200, 429} {
		all = append(all, fmt.Sprintf("%d %d", count[status], status))
	}
	return strings.Join(all, ", ")
}

// TestCommandsOfThePage do what the page says, and those of compose.yaml too.
func TestCommandsOfThePage(t *testing.T) {
	server := redistest.Standalone(t)
	slidegate := build(t, filepath.Join(root, "cmd", "slidegate"), ".")
	listen := redistest.NewServer(t).Addr // a free port
	serve := func(args []string) {
		start(t, exec.Command(slidegate, args...))
	}
	commands := strings.Join(fences(t, readPage(t), "sh"), "")
	for line := range strings.Lines(strings.ReplaceAll(commands, pageAddr, server.Addr)) {
		words := strings.Fields(line)
		if words[0] != "slidegate" {
			t.Fatalf("who runs %q?", line)
		}
		switch words[1] {
		case "serve":
			serve(append(words[1:], "--listen", listen))
			equal(t, "statuses of 101 requests", statuses(t, "http://"+listen, 101), "100 200, 1 429")
		case "peek":
			out, err := exec.Command(slidegate, words[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "would be admitted") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		default:
			t.Errorf("no test knows what %q does", line)
		}
	}

	server.Flush()
	listen = redistest.NewServer(t).Addr
	args := composed(t, "serve")
	for i := range args {
		args[i] = strings.NewReplacer("0.0.0.0:8080", listen, "redis:6379", server.Addr).Replace(args[i])
	}
	serve(args)
	began := time.Now()
	if got := statuses(t, "http://"+listen, 30); got != "20 200, 10 429" && time.Since(began) < time.Second {
		t.Errorf("statuses of 30 requests: %s", got)
	}
	if len(server.Keys()) == 0 {
		t.Error("nothing is stored in Redis")
	}
}

// composed returns the command in compose.yaml that begins with a word.
func composed(t *testing.T, first string) []string {
	t.Helper()
	for line := range strings.Lines(readFile(t, "compose.yaml")) {
		list, ok := strings.CutPrefix(strings.TrimSpace(line), "command: ")
		if !ok {
			continue
		}
		var words []string
		if err := json.Unmarshal([]byte(list), &words); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if words[0] == first {
			return words
		}
	}
	t.Fatalf("compose.yaml runs no %s", first)
	return nil
}

// TestTheServerOfComposeStarts with the directives that compose.yaml gives it.
func TestTheServerOfComposeStarts(t *testing.T) {
	var options []redistest.Option
	directives := composed(t, "redis-server")[1:]
	for pair := range slices.Chunk(directives, 2) {
		options = append(options, redistest.With(strings.TrimPrefix(pair[0], "--"), pair[1]))
	}
	server := redistest.Standalone(t, options...)
	reply, _ := server.Do("CONFIG", "GET", "maxmemory-policy").([]any)
	if len(reply) != 2 || reply[1] != "noeviction" {
		t.Errorf("the policy is %v", reply)
	}
}

// TestTheImageCanBeBuilt as the Dockerfile says: its build line is run here, without compiling.
func TestTheImageCanBeBuilt(t *testing.T) {
	line := regexp.MustCompile(`(?m)^RUN (.*)$`).FindStringSubmatch(readFile(t, "Dockerfile"))
	if line == nil || !strings.Contains(line[1], " go build ") {
		t.Fatal("no build line")
	}
	cmd := exec.Command("sh", "-c", strings.Replace(line[1], " -o ", " -n -o ", 1))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "/slidegate") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRedisCommandsOfThePage are understood by the server, and the user that one makes can do all that a
// limiter does.
func TestRedisCommandsOfThePage(t *testing.T) {
	server := redistest.Standalone(t)
	limits := []slidegate.Limit{slidegate.PerSecond(1000).Named("burst"), slidegate.PerDay(1000).Counter().Named("plan")}
	take(t, newLimiter(t, newStore(t, server), limits...), "user:42", 1)
	replies := map[string]string{}
	scan := bufio.NewScanner(strings.NewReader(strings.Join(fences(t, readPage(t), "redis"), "")))
	for scan.Scan() {
		words := strings.Fields(scan.Text())
		reply, err := server.Try(words...)
		if err != nil {
			t.Errorf("%s: %v", scan.Text(), err)
		}
		replies[words[0]] = fmt.Sprint(reply)
	}
	for command, want := range map[string]string{"SCAN": "{user:42}:plan:1d,counter", "MEMORY": "", "PTTL": "", "ACL": "OK"} {
		if reply, ok := replies[command]; !ok || !strings.Contains(reply, want) || command != "SCAN" && reply == "-2" {
			t.Errorf("%s answered %q", command, reply)
		}
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, Username: "limits", Password: "secret", ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limiter := newLimiter(t, redisstore.New(rueidisstore.New(client), redisstore.WithTimeout(generous)), limits...)
	d := takeN(t, limiter, "a", 2)
	refund(t, limiter, &d)
	equal(t, "left", left(t, limiter, "a"), 1000)
	if err := limiter.Reset(background, "a"); err != nil {
		t.Error(err)
	}
}

var acceptanceRow = regexp.MustCompile(`(?m)^\| ([ABDE])(\d\d) \| (.+) \| (.+) \|$`)

// TestEveryRowOfAcceptanceIsShown: docs/acceptance.md has every row once, in order, and each names a test or
// says what took its place.
func TestEveryRowOfAcceptanceIsShown(t *testing.T) {
	var want []string
	for _, part := range []struct {
		letter string
		rows   int
	}{{"A", 49}, {"B", 22}, {"D", 84}, {"E", 23}} {
		for i := range part.rows {
			want = append(want, fmt.Sprintf("%s%02d", part.letter, i+1))
		}
	}
	var got []string
	for _, row := range acceptanceRow.FindAllStringSubmatch(readFile(t, "docs", "acceptance.md"), -1) {
		got = append(got, row[1]+row[2])
		if !strings.Contains(row[4], "](../") {
			t.Errorf("%s%s: nothing shows it: %s", row[1], row[2], row[4])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are %q", got)
	}
}
