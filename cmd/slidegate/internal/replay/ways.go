package replay

import (
	"context"
	"strings"

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
	if len(ways) > 0 {
		b.WriteString("\n")
		rehearse.WriteTable(b, waysTable(ways))
	}
}

func waysTable(ways []WayReport) [][]string {
	table := [][]string{{"side by side", "admitted", "refused", "", "keys refused", ""}}
	for _, w := range ways {
		table = append(table, []string{
			w.Way, rehearse.Thousands(w.Admitted), rehearse.Thousands(w.Refused), rehearse.Share(w.Refused, w.Admitted+w.Refused),
			rehearse.Thousands(int64(w.KeysRefused)), rehearse.Share(int64(w.KeysRefused), int64(w.Keys)),
		})
	}
	return table
}
