package replay

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A WayReport is what the same policy would have done if all its limits were counted in one way.
type WayReport struct {
	Way         string `json:"way"` // sliding log, sliding counter or fixed window
	Admitted    int64  `json:"admitted"`
	Refused     int64  `json:"refused"`
	Keys        int    `json:"keys"`
	KeysRefused int    `json:"keys_refused"`
}

// sideBySide decides everything once more for each way, in memory.
func (r *run) sideBySide(ctx context.Context, tl *timeline.Timeline, keys int) ([]WayReport, error) {
	var reports []WayReport
	for _, way := range rehearse.Ways() {
		report := WayReport{Way: way.String(), Keys: keys}
		if err := r.decideIn(ctx, way, tl, &report); err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func (r *run) decideIn(ctx context.Context, way rehearse.Way, tl *timeline.Timeline, report *WayReport) error {
	judge, memory, err := r.policy.Judge(way, 0)
	if err != nil {
		return err
	}
	refused := make([]bool, report.Keys)
	err = source.Each(ctx, r.stderr, way.String(), tl, func(e *timeline.Event) error {
		v, key, err := r.decideOne(ctx, judge, tl, e)
		switch {
		case err != nil:
			return err
		case !v.Fits || e.Op != accesslog.Take:
		case v.Admitted:
			report.Admitted++
		default:
			report.Refused++
			refused[key] = true
		}
		return nil
	})
	for _, is := range refused {
		if is {
			report.KeysRefused++
		}
	}
	return joined(err, memory.Forgotten())
}

// decideOne decides an event, and returns the number of its key as the report counts keys.
func (r *run) decideOne(ctx context.Context, judge *rehearse.Judge, tl *timeline.Timeline, e *timeline.Event) (*rehearse.Verdict, uint32, error) {
	if r.book == nil {
		v, err := judge.DecideKey(ctx, e, tl.Subjects.Name(e.Subject))
		return v, e.Subject, err
	}
	asked := r.book.Asked(e)
	v, err := judge.Decide(ctx, e, asked)
	return v, asked.Client, err
}

func writeWays(b *strings.Builder, ways []WayReport) {
	if len(ways) == 0 {
		return
	}
	table := [][]string{{"side by side", "admitted", "refused", "", "keys refused", ""}}
	for _, w := range ways {
		table = append(table, []string{
			w.Way, thousands(w.Admitted), thousands(w.Refused), share(w.Refused, w.Admitted+w.Refused),
			thousands(int64(w.KeysRefused)), share(int64(w.KeysRefused), int64(w.Keys)),
		})
	}
	b.WriteString("\n")
	writeTable(b, table)
}

// writeTable writes rows whose first column is to the left and whose others are to the right.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
