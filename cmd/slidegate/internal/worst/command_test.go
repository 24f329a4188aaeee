package worst

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// run runs a command and returns what it says on standard error.
func run(cmd *cobra.Command, in io.Reader, out io.Writer, args ...string) (stderr string, err error) {
	var errs bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return errs.String(), err
}

// TestJSONHasEveryWay, an object a line for each limit, and its witnesses are events.
func TestJSONHasEveryWay(t *testing.T) {
	var out bytes.Buffer
	if errs, err := run(Command(), nil, &out, "--json", "100/2s", "hour=1000/1h,counter"); err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	const want = `{"limit":"100/2s","quota":100,"window_ms":2000,` +
		`"log":{"worst":100,"bound":100,"witness":[{"t":0,"key":"100/2s","cost":100}]},` +
		`"counter":{"worst":200,"bound":200,"witness":[{"t":1999,"key":"100/2s","cost":100},{"t":3981,"key":"100/2s","cost":100}]},` +
		`"fixed":{"worst":200,"bound":200,"witness":[{"t":1999,"key":"100/2s","cost":100},{"t":2000,"key":"100/2s","cost":100}]},` +
		`"gcra":{"worst":199,"bound":199,"witness":[{"t":0,"key":"100/2s","cost":100},{"t":1999,"key":"100/2s","cost":99}]}}`
	if lines[0] != want {
		t.Errorf("got  %s\nwant %s", lines[0], want)
	}
	var hour Report
	if err := json.Unmarshal([]byte(lines[1]), &hour); err != nil {
		t.Fatal(err)
	}
	if hour.Limit != "hour=1000/1h,counter" || hour.Quota != 1000 || hour.WindowMS != 3_600_000 || hour.Log.Worst != 1000 || hour.Counter.Worst <= 1000 || hour.Fixed.Worst != 2000 {
		t.Errorf("%s", lines[1])
	}
}

// TestBadUsage: a mistake is named, with what is allowed, and nothing is printed.
func TestBadUsage(t *testing.T) {
	for want, args := range map[string]string{
		"name at least one, such as 100/2s":               "",
		"quota 0: allowed is 1 to 1000000000000":          "0/1s",
		`the form is [name=]QUOTA/WINDOW`:                 "100",
		`two limits have the name "a": names must differ`: "a=1/1s a=2/2s",
		"9 limits: allowed is 1 to 8":                     "1/1s 2/1s 3/1s 4/1s 5/1s 6/1s 7/1s 8/1s 9/1s",
		"resolution 1ms: allowed is none for a counter":   "1/1s,counter,resolution=1ms",
		"--witness, --json and --svg: one of them":        "--witness --json 1/1s",
		"--json and --svg: one of them, since each takes": "--svg --json 1/1s",
		"worst --svg: 2 limits: allowed is 1":             "--svg 1/1s 2/2s",
	} {
		var out bytes.Buffer
		var usage *config.UsageError
		if _, err := run(Command(), nil, &out, strings.Fields(args)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%q: %v, %q; want an error of usage with %q", args, err, out.String(), want)
		}
	}
}

// TestWhatCannotBeWrittenIsAnError: a full disk is no success.
func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	for _, args := range [][]string{{"1/1s"}, {"--json", "1/1s"}, {"--witness", "1/1s"}, {"--svg", "1/1s"}} {
		if _, err := run(Command(), nil, full{}, args...); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
