package rls

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/rls/rules"
)

// Load reads the rule files of a directory and uses them from then on. If they cannot be used the rules in force stay, and
// the error, which wraps [rules.ErrInvalid] if it is about a file, is counted and returned. Where there were rules before,
// the logger is told of either.
func (s *Service) Load(dir string) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	files, err := rules.Files(dir)
	return s.load(dir, files, err)
}

// load uses what is in a directory.
func (s *Service) load(dir string, files []rules.File, err error) error {
	s.tried = digestOf(files, err)
	isReload := s.Rules() != nil
	if err == nil {
		err = s.use(files)
	}
	s.Metrics.loaded(err)
	switch {
	case err != nil && isReload:
		s.Logger.Error("the rules cannot be used: those in force stay", "directory", dir, "error", err)
	case isReload:
		s.Logger.Info("rules loaded", "directory", dir, "domains", len(s.Rules().Domains()), "rules", len(s.Rules().Rules))
	}
	return err
}

func (s *Service) use(files []rules.File) error {
	var options []rules.Option
	if s.MergeDomains {
		options = append(options, rules.MergeDomains())
	}
	set, err := rules.Read(files, options...)
	if err != nil {
		return err
	}
	return s.Use(set)
}

// Follow loads the rules of a directory again when they have changed, until ctx ends. It looks every so often at what is
// there, whatever way that came there: written in place, renamed, or behind a link, as Kubernetes swaps a ConfigMap. A change
// is loaded when it is there at two looks in a row, so that files are not read half-written. now has it load at once,
// changed or not.
func (s *Service) Follow(ctx context.Context, dir string, every time.Duration, now <-chan os.Signal) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last digest
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
			_ = s.Load(dir) // which is told
		case <-tick.C:
			last = s.look(dir, last)
		}
	}
}

// look loads what has changed since it was last tried and is as it was at the last look. It returns what is there.
func (s *Service) look(dir string, last digest) digest {
	s.reload.Lock()
	defer s.reload.Unlock()
	files, err := rules.Files(dir)
	there := digestOf(files, err)
	if there != s.tried && there == last {
		_ = s.load(dir, files, err) // which is told
	}
	return there
}

// A digest is what the files of a directory are known by, or why they cannot be read.
type digest [sha256.Size]byte

func digestOf(files []rules.File, err error) digest {
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%s\x00%d\x00%s", f.Name, len(f.Text), f.Text)
	}
	if err != nil {
		fmt.Fprintf(sum, "%v", err)
	}
	return digest(sum.Sum(nil))
}
