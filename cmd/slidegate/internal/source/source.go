// Package source reads logs for the commands that rehearse limits: the flags that say how a log is written and who a client
// in it is, and the reading itself with its progress.
package source

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/keyexpr"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// Flags are the flags about a log, as text.
type Flags struct {
	Format string
	Key    string
	Strict bool
	Spread bool

	fields  []string
	columns string
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Format, "format", "auto", accesslog.FormatUsage)
	flags.StringVar(&f.Key, "key", "ip", "the `expression` that tells clients of an access log apart: ip, header:NAME, cookie:NAME, path, host, method, joined by +")
	flags.StringArrayVar(&f.fields, "field", nil, accesslog.FieldsUsage)
	flags.StringVar(&f.columns, "columns", "", "the `names` of the columns of csv and tsv, by commas, where the first line does not name them")
	flags.BoolVar(&f.Strict, "strict", false, "fail at a line that cannot be read, instead of counting it")
	flags.BoolVar(&f.Spread, "spread", false, "set the requests of one second apart evenly, where the log has whole seconds alone")
	// The error is of a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(accesslog.FormatNames, cobra.ShellCompDirectiveNoFileComp))
}

// A Source is a log that is to be read, checked.
type Source struct {
	Log      accesslog.Options
	Timeline timeline.Options

	// Subjects makes what a request counts as, once for each goroutine that reads.
	Subjects func() accesslog.Subject

	keys *keys
}

// Parse turns text into a source, or says what is wrong with it.
func (f *Flags) Parse(command string, files []string, stdin io.Reader) (*Source, error) {
	log, err := f.log()
	if err != nil {
		return nil, err
	}
	expr, err := keyexpr.Parse(strings.TrimSpace(f.Key))
	if err != nil {
		return nil, config.Usagef("--%w", err)
	}
	isFile := func(name string) bool { return name != "-" }
	switch {
	case len(slices.DeleteFunc(slices.Clone(files), isFile)) > 1:
		return nil, config.Usagef("%s: - stands for standard input and may be given once", command)
	case len(files) == 0:
		return nil, config.Usagef("%s: no file: name at least one, or - for standard input", command)
	}
	if log.Files, err = accesslog.Names(files); err != nil {
		return nil, err
	}
	log.Stdin, log.Brief = stdin, expr.IsAddress()
	keys := keysOf(expr)
	return &Source{Log: log, Timeline: timeline.Options{Spread: f.Spread}, Subjects: keys.new, keys: keys}, nil
}

// log is how the log is to be read.
func (f *Flags) log() (log accesslog.Options, err error) {
	log.Strict = f.Strict
	if log.Fields, err = accesslog.ParseFields(f.fields); err != nil {
		return log, config.Usagef("--field %w", err)
	}
	var names []string
	if f.columns != "" {
		names = strings.Split(f.columns, ",")
	}
	if log.Format, err = accesslog.ParseFormat(f.Format, log.Fields, names); err != nil {
		return log, config.Usagef("--format %w", err)
	}
	return log, nil
}

// Ask has the log read for subjects that may ask for anything that a record has, in the place of the key.
func (s *Source) Ask(subjects func() accesslog.Subject) {
	s.Subjects, s.keys, s.Log.Brief = subjects, nil, false
}

// Missed is an error if no line that was read had what the key asks for: all clients would have been told apart by
// something else, and no report would say so.
func (s *Source) Missed(l *accesslog.Log, tl *timeline.Timeline) error {
	if s.keys == nil || tl.Subjects.Len() == 0 {
		return nil
	}
	return s.keys.missed(l)
}

// Read reads the log to its end, and shows on w how far it has come. The log and the timeline are to be closed, if there
// is no error. Where part of the log could not be read there is none: [NothingRead] and [CutShort] tell.
func (s *Source) Read(ctx context.Context, w io.Writer) (*accesslog.Log, *timeline.Timeline, error) {
	var reading Meter
	s.Log.Progress = reading.Add
	l, err := accesslog.Open(s.Log)
	if err != nil {
		return nil, nil, err
	}
	reading.Start(w, "reading", l.Size(), true)
	tl, err := timeline.Read(ctx, l, s.Subjects, s.Timeline)
	reading.Done()
	if err == nil {
		if err = s.Missed(l, tl); err == nil {
			return l, tl, nil
		}
		tl.Close()
	}
	l.Close()
	return nil, nil, err
}

// Each calls f for each request in the order of time, and shows on w how far it has come.
func Each(ctx context.Context, w io.Writer, what string, tl *timeline.Timeline, f func(*timeline.Event) error) error {
	var deciding Meter
	deciding.Start(w, what, tl.Len(), false)
	defer deciding.Done()
	return tl.Each(ctx, func(e *timeline.Event) error {
		deciding.Add(1)
		return f(e)
	})
}

// NothingRead is an error where there were lines and none could be read: no report tells of a log then.
func NothingRead(l *accesslog.Log, tl *timeline.Timeline) error {
	bad := l.Bad()
	switch {
	case tl.Subjects.Len() > 0 || l.Skipped() > 0:
		return nil
	case bad.Count > 0:
		return fmt.Errorf("no line could be read as %s: %s", l.Format(), bad.First[0])
	}
	return CutShort(l)
}

// CutShort is an error, in one sentence, if a file could not be read to its end.
func CutShort(l *accesslog.Log) error {
	err := l.Failed()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: what was read before is all that is told", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// Interruptible ends what f does when somebody wants to stop, so that it can put away what it has on the disk; a second
// time ends the program at once.
func Interruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}
