package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/test/redistest"
)

// A volume is a directory that a ConfigMap is mounted at. It changes as the kubelet changes it: new files come into a
// directory of their own, the link ..data is renamed over the one before, and the old directory goes. The files that
// others see are links through ..data, which stay.
type volume struct {
	t    *testing.T
	path string
	n    int
}

func newVolume(t *testing.T, files map[string]string) *volume {
	t.Helper()
	v := &volume{t: t, path: t.TempDir()}
	v.swap(files)
	for name := range files {
		v.must(os.Symlink(filepath.Join("..data", name), filepath.Join(v.path, name)))
	}
	return v
}

func (v *volume) swap(files map[string]string) {
	v.t.Helper()
	before, _ := os.Readlink(filepath.Join(v.path, "..data"))
	v.n++
	next := fmt.Sprintf("..2026_01_02_03_04_%02d.1", v.n)
	v.must(os.Mkdir(filepath.Join(v.path, next), 0o755))
	for name, text := range files {
		v.must(os.WriteFile(filepath.Join(v.path, next, name), []byte(text), 0o644))
	}
	v.must(os.Symlink(next, filepath.Join(v.path, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.path, "..data_tmp"), filepath.Join(v.path, "..data")))
	if before != "" {
		v.must(os.RemoveAll(filepath.Join(v.path, before)))
	}
}

func (v *volume) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// metric returns the value of a series.
func (r *running) metric(series string) string {
	r.t.Helper()
	_, text := r.get(r.admin + "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// awaits waits until a series has a value.
func (r *running) awaits(series, value string) {
	r.t.Helper()
	redistest.Await(r.t, patience, series+" is "+value, func() bool { return r.metric(series) == value })
}

const (
	reloaded    = `slidegate_config_reloads_total{result="success"}`
	notReloaded = `slidegate_config_reloads_total{result="failure"}`
)

// TestThePodTakesUpAChangedConfigMap, with a file beside the rules as well; one that is wrong changes nothing; and nothing
// that was counted is forgotten.
func TestThePodTakesUpAChangedConfigMap(t *testing.T) {
	m := readManifests(t)
	files := func(rules, plans string) map[string]string {
		return map[string]string{"rules.yaml": rules, "plans.txt": plans}
	}
	limits := func(quota string) string {
		return "rules: [{name: all, limits: " + quota + ", plans: {gold: 5/1h}, overrides-file: plans.txt}]\n"
	}
	const nobody, gold = "# nobody\n", "ip:127.0.0.1 gold\n"
	v := newVolume(t, files(limits("1/1h"), nobody))
	r := serve(t, m.settings(t).with(local(nil)), m.args(v)...)
	r.want(200, 429)
	v.swap(files(limits("2/1h"), nobody))
	r.awaits(reloaded, "1")
	r.want(200, 429)
	v.swap(files("rules: [{name: all, limit: 9/1h}]\n", nobody))
	r.awaits(notReloaded, "1")
	r.want(429)
	v.swap(files(limits("3/1h"), nobody))
	r.awaits(reloaded, "2")
	r.want(200, 429)
	v.swap(files(limits("3/1h"), gold))
	r.awaits(reloaded, "3")
	r.want(200, 200, 429)
}

// TestTheUnitReloads: its two lines take changed rules at once, and where the rules are wrong the first fails and says why.
func TestTheUnitReloads(t *testing.T) {
	lines := unitLines(t, "ExecReload")
	if len(lines) != 2 {
		t.Fatalf("ExecReload is %q", lines)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rewrite("rules: [{name: all, limits: 1/1h}]\n")
	r := serve(t, local(nil), "serve", "--config", file)
	reload := func() (string, error) {
		replaced := strings.NewReplacer("/usr/local/bin/slidegate", binary, "/etc/slidegate/rules.yaml", file, "$MAINPID", fmt.Sprint(r.cmd.Process.Pid))
		for _, line := range lines {
			words := strings.Fields(replaced.Replace(line))
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				return string(out), err
			}
		}
		return "", nil
	}
	r.want(200, 429)
	rewrite("rules: [{name: all, limits: 2/1h}]\n")
	if out, err := reload(); err != nil {
		t.Errorf("a reload: %v\n%s", err, out)
	}
	redistest.Await(t, patience, "the rules are taken", func() bool { return strings.Contains(r.text(), "all: 1/1h → 2/1h") })
	r.want(200, 429)
	rewrite("rules: [{name: all, limits: many}]\n")
	if out, err := reload(); err == nil || !strings.Contains(out, file+":1: ") {
		t.Errorf("a reload of what is wrong: %v\n%s", err, out)
	}
	r.want(429)
}
