package replay

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rehearse"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/source"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/storage"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
	"github.com/slidegate/slidegate/redisstore"
)

// A run is one call of the command, checked.
type run struct {
	limits   []slidegate.Limit // with their names; none where there are rules
	policy   *rehearse.Policy
	source   *source.Source
	ways     bool
	verdicts bool
	json     bool
	html     string // the file of the page, empty for none

	redis   *storage.Redis // nil for memory
	drawn   bool           // its prefix was
	cleanUp bool

	book *rehearse.Book // of rules; nil for limits

	stdin          io.Reader
	stdout, stderr io.Writer
}

func (r *run) do(ctx context.Context) error {
	r.source.Log.Stdin = r.stdin
	r.note()
	if r.verdicts {
		return r.printVerdicts(ctx)
	}
	return r.printReport(ctx)
}

// note says where the state is, if nobody could know, and what to mind.
func (r *run) note() {
	switch {
	case r.redis == nil:
	case r.drawn && !r.cleanUp:
		fmt.Fprintf(r.stderr, "slidegate: the state is in %s under %s:{…}; the keys expire by themselves, and --store-cleanup removes them at the end\n", r.redis.Address, r.redis.Prefix)
	case r.redis.Prefix == redisstore.DefaultPrefix || r.redis.IsPrefixFromVariable:
		fmt.Fprintf(r.stderr, "slidegate: the prefix %s may be that of live keys: what counts now and what is replayed would be mixed\n", r.redis.Prefix)
	}
}

// player returns what decides, and tells what came of it.
func (r *run) player(ctx context.Context, k *timeline.Subjects, maxKeys int, tell outcome) (player, error) {
	if r.redis == nil {
		return newMemoryPlayer(ctx, r.limits, k, maxKeys, tell)
	}
	p, err := newRedisPlayer(ctx, r.redis, r.limits, k, tell)
	if err != nil {
		return nil, err
	}
	p.cleanUp = r.cleanUp
	return p, nil
}

// end ends a player, and adds what it says to the error of the replay.
func end(p player, err error) error {
	return joined(err, p.end())
}

func joined(err, ended error) error {
	if err != nil && ended != nil {
		return fmt.Errorf("%w; %w", err, ended)
	}
	return cmp.Or(err, ended)
}

func (r *run) printReport(ctx context.Context) error {
	page, err := newDraft(r.html, r.limits, r.read())
	if err != nil {
		return err
	}
	l, tl, err := r.source.Read(ctx, r.stderr)
	if err != nil {
		return err
	}
	defer l.Close()
	defer tl.Close()
	report, err := r.report(ctx, l, tl, page)
	if err != nil {
		return err
	}
	if r.json {
		err = report.printJSON(r.stdout)
	} else {
		err = report.print(r.stdout)
	}
	return cmp.Or(err, source.CutShort(l))
}

// read returns the files that are read: the log's, and that of the rules.
func (r *run) read() []string {
	if r.book == nil {
		return r.source.Log.Files
	}
	return append(slices.Clone(r.source.Log.Files), r.policy.Name)
}

// report decides everything, tells what came of it, and writes the page of it.
func (r *run) report(ctx context.Context, l *accesslog.Log, tl *timeline.Timeline, page *draft) (*Report, error) {
	t := newTally(tl.Subjects.Len())
	names := &tl.Subjects
	var rules *rulesTally
	var err error
	if r.book == nil {
		err = r.decide(ctx, tl, page.also(t.count))
	} else {
		rules, t = newRulesTally(r.policy), newTally(0)
		names = &r.book.Clients
		r.book.Of(&tl.Subjects)
		err = r.decideRules(ctx, tl, t, rules, page)
	}
	var ways []WayReport
	if err == nil && r.ways {
		ways, err = r.sideBySide(ctx, tl, len(t.byKey))
	}
	if err == nil {
		err = source.NothingRead(l, tl)
	}
	if err != nil {
		return nil, err
	}
	report := newReport(l, tl, r.limits, t, names)
	report.Ways = ways
	if rules != nil {
		rules.report(report, r.policy)
	}
	return report, page.write(ctx, r, tl, report, t, names)
}

func (r *run) decide(ctx context.Context, tl *timeline.Timeline, tell outcome) error {
	p, err := r.player(ctx, &tl.Subjects, max(1, tl.Subjects.Len()), tell)
	if err != nil {
		return err
	}
	err = source.Each(ctx, r.stderr, "deciding", tl, p.play)
	if err == nil {
		err = p.flush()
	}
	return end(p, err)
}

// printVerdicts prints events as they are read where they are replayed in the order of the file,
// and says on stderr what the verdicts leave out.
func (r *run) printVerdicts(ctx context.Context) error {
	out := bufio.NewWriterSize(r.stdout, 64<<10)
	tl := timeline.New(r.source.Timeline)
	defer tl.Close()
	v := verdicts{keys: &tl.Subjects, out: out}
	p, err := r.player(ctx, &tl.Subjects, rehearse.ManyKeys, v.print)
	if err != nil {
		return err
	}
	// Who waits for a verdict gets it before more is read. An error comes again at the next event.
	r.source.Log.Idle = func() {
		_ = p.flush()
		out.Flush()
	}
	l, err := accesslog.Open(r.source.Log)
	if err != nil {
		return end(p, err)
	}
	defer l.Close()
	err = r.playAll(ctx, l, tl, p)
	err = end(p, cmp.Or(err, out.Flush()))
	if err != nil {
		return err
	}
	if l.Guessed() {
		fmt.Fprintf(r.stderr, "slidegate: read as %s, told from the first lines\n", l.Format())
	}
	if bad := l.Bad(); bad.Count > 0 {
		fmt.Fprintf(r.stderr, "slidegate: %s\n", bad.Sentence())
	}
	return cmp.Or(source.NothingRead(l, tl), source.CutShort(l))
}

// playAll plays events as they come, and what an access log has in the order of time.
func (r *run) playAll(ctx context.Context, l *accesslog.Log, tl *timeline.Timeline, p player) error {
	take := tl.Add
	if l.HasEvents() {
		p.timeMayRunBack()
		take = func(e *accesslog.Entry) error { return p.play(tl.Event(e)) }
	}
	if err := l.Read(ctx, r.source.Subjects, take); err != nil {
		return err
	}
	if err := r.source.Missed(l, tl); err != nil {
		return err
	}
	if err := tl.Each(ctx, p.play); err != nil {
		return err
	}
	return p.flush()
}
