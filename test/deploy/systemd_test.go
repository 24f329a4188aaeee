package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/redistest"
)

// unit returns what deploy/systemd/slidegate.service says, by section and name; of a name that is there
// several times all values, with a blank between.
func unit(t *testing.T) map[string]string {
	t.Helper()
	all, section := map[string]string{}, ""
	for line := range strings.Lines(readFile(t, "deploy", "systemd", "slidegate.service")) {
		line = strings.TrimSpace(line)
		name, value, isSetting := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case isSetting:
			key := section + "." + name
			all[key] = strings.TrimSpace(all[key] + " " + value)
		default:
			t.Errorf("what is %q?", line)
		}
	}
	return all
}

// unitLines are the values of a name that has an order, each on its line.
func unitLines(t *testing.T, name string) (all []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(readFile(t, "deploy", "systemd", "slidegate.service"), -1) {
		all = append(all, m[1])
	}
	return all
}

// started are the arguments with which the unit starts the command, with the file of the directory in the place of the
// one in /etc.
func started(t *testing.T) []string {
	t.Helper()
	program, args, _ := strings.Cut(unit(t)["Service.ExecStart"], " ")
	file := filepath.Join(root, "deploy", "systemd", "rules.yaml")
	if program != "/usr/local/bin/slidegate" || !strings.HasSuffix(args, " /etc/slidegate/rules.yaml") {
		t.Errorf("it starts %s %s", program, args)
	}
	return strings.Fields(strings.Replace(args, "/etc/slidegate/rules.yaml", file, 1))
}

// TestTheUnitServes: the command takes the arguments of the unit and the file beside it, limits with Redis as that says,
// and ends by the signal of systemd within the time that the unit gives it.
func TestTheUnitServes(t *testing.T) {
	server := redistest.Standalone(t)
	r := serve(t, local(settings{
		"SLIDEGATE_UPSTREAM": web(t), "SLIDEGATE_STORE": "redis://" + server.Addr + "/0", "SLIDEGATE_STORE_TIMEOUT": "2s",
	}), started(t)...)
	r.want(200)
	if keys := strings.Join(server.Keys(), " "); !strings.Contains(keys, ":rest:burst:1s") || !strings.Contains(keys, ":rest:sustained:1h") {
		t.Errorf("stored is %s", keys)
	}
	u := unit(t)
	stop, err := time.ParseDuration(u["Service.TimeoutStopSec"])
	if err != nil || stop <= grace(t) || u["Service.KillSignal"] != "" {
		t.Errorf("it is killed after %v, and a drain takes up to %v", stop, grace(t))
	}
	if status := r.terminate(); status != 0 {
		t.Errorf("it ends with %d: %s", status, r.text())
	}
}

// grace is how long a drain may take unless said otherwise.
func grace(t *testing.T) time.Duration {
	t.Helper()
	out, err := command(nil, "serve", "--help").CombinedOutput()
	m := regexp.MustCompile(`--grace duration .*\(default (\w+)\)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, err := time.ParseDuration(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheUnitDoesNotRepeatMistakes: it starts again what has ended, but not what was told something impossible.
func TestTheUnitDoesNotRepeatMistakes(t *testing.T) {
	u := unit(t)
	if u["Service.Restart"] != "always" || u["Service.RestartPreventExitStatus"] != "2" || u["Unit.StartLimitIntervalSec"] != "0" {
		t.Errorf("Restart=%s, RestartPreventExitStatus=%s, StartLimitIntervalSec=%s",
			u["Service.Restart"], u["Service.RestartPreventExitStatus"], u["Unit.StartLimitIntervalSec"])
	}
	cmd := command(settings{"SLIDEGATE_KEY": "none"}, started(t)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("an impossible key: %v\n%s", err, out)
	}
}

// confinement is what keeps the process from all that it does not need.
var confinement = map[string]string{
	"DynamicUser": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "UMask": "0077",
	"ProtectSystem": "strict", "ProtectHome": "yes", "ProtectProc": "invisible", "ProtectControlGroups": "yes",
	"ProtectKernelTunables": "yes", "ProtectKernelModules": "yes", "ProtectKernelLogs": "yes", "ProtectClock": "yes", "ProtectHostname": "yes",
	"PrivateTmp": "yes", "PrivateDevices": "yes", "PrivateUsers": "yes", "RemoveIPC": "yes",
	"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces": "yes", "RestrictRealtime": "yes", "RestrictSUIDSGID": "yes",
	"LockPersonality": "yes", "MemoryDenyWriteExecute": "yes",
	"SystemCallArchitectures": "native", "SystemCallFilter": "@system-service ~@privileged @resources", "SystemCallErrorNumber": "EPERM",
}

// TestTheUnitConfines the process. Where there is a systemd-analyze, it finds no fault and at most an exposure of 1.5.
func TestTheUnitConfines(t *testing.T) {
	u := unit(t)
	for name, want := range confinement {
		if got, ok := u["Service."+name]; !ok || got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	path := filepath.Join(t.TempDir(), "slidegate.service")
	text := strings.ReplaceAll(readFile(t, "deploy", "systemd", "slidegate.service"), "/usr/local/bin/slidegate", binary)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", path}, {"security", "--offline=true", "--threshold=15", path}} {
		out, err := exec.Command(analyze, args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestThePasswordOfTheUnit: the lines that are to be taken in name the variable that the command reads.
func TestThePasswordOfTheUnit(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^#(LoadCredential|Environment)=(.*)$`).FindAllStringSubmatch(readFile(t, "deploy", "systemd", "slidegate.service"), -1)
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	credential, _, _ := strings.Cut(lines[0][2], ":")
	name, value, _ := strings.Cut(lines[1][2], "=")
	if value != "%d/"+credential {
		t.Errorf("%s is loaded and %s is read", credential, value)
	}
	file := filepath.Join(t.TempDir(), credential)
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := redistest.Standalone(t, redistest.WithPassword("secret"))
	r := serve(t, local(settings{
		"SLIDEGATE_UPSTREAM": web(t), "SLIDEGATE_STORE": "redis://" + server.Addr + "/0", "SLIDEGATE_STORE_TIMEOUT": "2s", "SLIDEGATE_ON_STORE_ERROR": "closed", name: file,
	}), started(t)...)
	r.want(200)
}
