package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the command once for all tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "slidegate")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "slidegate")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "slidegate")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// newBrowser starts a browser without a screen. It ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(2*time.Minute),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("a browser has to be installed, see scripts/need chromium: %v", err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits until it has ended
	return ctx
}

// A witness notes what a page asks of other places, and what goes wrong in it.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

// expectNothing fails the test for all that was noted.
func (w *witness) expectNothing(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		t.Errorf("the page: %s", s)
	}
}

// watch notes all that happens in the browser but the loading of the page itself.
func watch(t *testing.T, ctx context.Context, page string) *witness {
	t.Helper()
	w := &witness{}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; u != page && !strings.HasPrefix(u, page+"#") && !strings.HasPrefix(u, "data:") {
				w.note("asks for %s", u)
			}
		case *network.EventWebSocketCreated:
			w.note("asks for %s", e.URL)
		case *runtime.EventExceptionThrown:
			w.note("throws %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			w.note("writes to the console: %s", e.Type)
		case *cdplog.EventEntryAdded:
			w.note("is reported: %s %s", e.Entry.Level, e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, ctx, network.Enable, network.EnableParams{})
	call(t, ctx, cdplog.Enable, cdp.Empty{})
	call(t, ctx, runtime.Enable, cdp.Empty{})
	return w
}

// do runs actions in the browser.
func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// call gives the browser a command.
func call[P any](t *testing.T, ctx context.Context, command cdp.Command[P, cdp.Empty], params P) {
	t.Helper()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		t.Fatal(err)
	}
}

// get returns what an expression is in the page.
func get[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// open shows a file on a screen of so many pixels, in light or dark, and waits for its charts.
func open(t *testing.T, ctx context.Context, page string, width, height int64, scheme string) {
	t.Helper()
	var kind []chromedp.EmulateViewportOption
	if width < 600 {
		kind = append(kind, chromedp.EmulateMobile)
	}
	call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	do(t, ctx, chromedp.EmulateViewport(width, height, kind...), chromedp.Navigate(page), chromedp.WaitReady("html[data-drawn]"))
}

// keep puts a picture of the whole page where the package says.
func keep(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = t.ArtifactDir()
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100)) // 100 is PNG
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}
