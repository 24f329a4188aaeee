package sweep

import (
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// windowText writes a window in milliseconds as limits do: 1m, 15m, 1h.
func windowText(ms int64) string {
	limit := slidegate.Limit{Quota: 1, Window: time.Duration(ms) * time.Millisecond}
	return strings.TrimPrefix(limit.String(), "1/")
}

// parseWindow reads a window as limits have it.
func parseWindow(text string) (ms int64, err error) {
	limit, err := slidegate.ParseLimit("1/" + text)
	if err != nil || strings.ContainsAny(text, ",") {
		return 0, config.Usagef("--windows %q: allowed is a duration from 1ms to 3650d, such as 1s, 10s, 1m or 1h", text)
	}
	return limit.Window.Milliseconds(), nil
}
