package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every error of a file that cannot be used.
var ErrInvalid = errors.New("invalid rules")

// A File is a rule file.
type File struct {
	Name string // for messages
	Text []byte
}

// An Option is a choice of Read and Load.
type Option func(*reader)

// MergeDomains lets several files speak of one domain, as MERGE_DOMAIN_CONFIG does. Unless said so that is an error.
func MergeDomains() Option { return func(r *reader) { r.merge = true } }

// Load makes a set of the [Files] of a directory, as Read does.
func Load(dir string, options ...Option) (*Set, error) {
	files, err := Files(dir)
	if err != nil {
		return nil, err
	}
	return Read(files, options...)
}

// Files returns all files of a directory and of those below it, but those whose name begins with a dot: in the volume of a
// ConfigMap these are the older versions. Links are followed to files. A directory without a rule file is an error.
func Files(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, File{Name: path, Text: text})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rules cannot be read: %w", err)
	}
	if len(files) == 0 {
		return nil, Problems{dir + ": there is no file: give the directory with the YAML files"}
	}
	return files, nil
}

// Read makes a set of rule files. The error is [Problems], and tells all that is wrong.
func Read(files []File, options ...Option) (*Set, error) {
	r := &reader{set: &Set{domains: map[string]*node{}}, firstSeen: map[string]string{}}
	for _, o := range options {
		o(r)
	}
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) }) {
		r.file(f)
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.set, nil
}

// Problems are all that is wrong with rule files, each on a line that begins with FILE:LINE. They wrap [ErrInvalid].
type Problems []string

func (p Problems) Error() string { return ErrInvalid.Error() + ":\n" + strings.Join(p, "\n") }

// Unwrap returns ErrInvalid.
func (p Problems) Unwrap() error { return ErrInvalid }
