package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Figures are what was measured of a curve: for each x a value of every line.
type figures struct {
	where string // they were measured: Go, system, cores
	x     string // what is on the axis
	lines []string
	rows  []row
}

type row struct {
	x      int
	values []float64
}

func (f *figures) write(path string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", f.where)
	w := csv.NewWriter(&text)
	records := [][]string{append([]string{f.x}, f.lines...)}
	for _, r := range f.rows {
		record := []string{strconv.Itoa(r.x)}
		for _, v := range r.values {
			record = append(record, strconv.FormatFloat(v, 'f', 2, 64))
		}
		records = append(records, record)
	}
	if err := w.WriteAll(records); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

func readFigures(path string) (*figures, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	where, ok := strings.CutPrefix(first, "# ")
	if !ok {
		return nil, fmt.Errorf("%s: the first line does not say where it was measured", path)
	}
	records, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) < 2 {
		return nil, fmt.Errorf("%s: there are no figures", path)
	}
	f := &figures{where: where, x: records[0][0], lines: records[0][1:]}
	for _, record := range records[1:] {
		r := row{}
		if r.x, err = strconv.Atoi(record[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, field := range record[1:] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			r.values = append(r.values, v)
		}
		f.rows = append(f.rows, r)
	}
	return f, nil
}

// most is the largest value.
func (f *figures) most() (most float64) {
	for _, r := range f.rows {
		most = max(most, slices.Max(r.values))
	}
	return most
}

// words are the figures for those who do not see them.
func (f *figures) words(unit string) string {
	var all []string
	for i, line := range f.lines {
		var values []string
		for _, r := range f.rows {
			values = append(values, fmt.Sprintf("%.3g at %s", r.values[i], thousands(r.x)))
		}
		all = append(all, line+": "+strings.Join(values, ", "))
	}
	return unit + ", by " + f.x + ". " + strings.Join(all, ". ") + "."
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
