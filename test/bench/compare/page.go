package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// publish performs a part, and writes what was asked for beside: its table into a page, its measurements into a file.
func (p *part) publish() ([]outcome, error) {
	var table bytes.Buffer
	out = io.MultiWriter(os.Stdout, &table)
	outcomes := p.perform()
	out = os.Stdout
	if *page != "" {
		text, err := os.ReadFile(*page)
		if err != nil {
			return nil, err
		}
		text, err = put(text, p.name, table.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", *page, err)
		}
		if err := os.WriteFile(*page, text, 0o644); err != nil {
			return nil, err
		}
	}
	if *samples == "" || p.unit != "ns" && p.unit != "µs" {
		return outcomes, nil
	}
	f, err := os.OpenFile(*samples, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(p.lines())
	return outcomes, errors.Join(err, f.Close())
}

// put returns a page with the table of a part in its place. A page without that place stays as it is: it tells of some parts.
func put(page []byte, name string, table []byte) ([]byte, error) {
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- /"+name+" -->\n")
	head, rest, ok := bytes.Cut(page, begin)
	if !ok {
		return page, nil
	}
	_, tail, ok := bytes.Cut(rest, end)
	if !ok {
		return nil, fmt.Errorf("there is %q, and no %q after it", bytes.TrimSpace(begin), bytes.TrimSpace(end))
	}
	table = append(bytes.TrimSpace(table), '\n')
	return bytes.Join([][]byte{head, begin, []byte("\n"), table, []byte("\n"), end, tail}, nil), nil
}

// lines are the measurements of a part, round by round, in the format of Go's benchmarks.
func (p *part) lines() []byte {
	var b bytes.Buffer
	factor := map[string]float64{"ns": 1, "µs": 1000}[p.unit]
	for round := range p.times[p.rows[0].name] {
		for _, r := range p.rows {
			fmt.Fprintf(&b, "Benchmark%s/limiter=%s 1 %.5g ns/op\n", strings.ToUpper(p.name[:1])+p.name[1:], r.name, factor*p.times[r.name][round])
		}
	}
	return b.Bytes()
}
