package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// stacks are samples by stack: functions from the outermost in, with semicolons between them.
type stacks map[string]int64

// fold counts the samples of a profile whose stacks have a function of that name, from the outermost such function on.
func fold(p *profile.Profile, root string) stacks {
	all := stacks{}
	for _, s := range p.Sample {
		var frames []string
		for _, l := range slices.Backward(s.Location) {
			for _, line := range slices.Backward(l.Line) {
				frames = append(frames, short(line.Function.Name))
			}
		}
		if i := slices.IndexFunc(frames, func(f string) bool { return strings.Contains(f, root) }); i >= 0 {
			all[strings.Join(frames[i:], ";")] += s.Value[0]
		}
	}
	return all
}

// short is a function's name without the path of its package, and without what stands for type arguments.
func short(name string) string {
	name = strings.ReplaceAll(name[strings.LastIndexByte(name, '/')+1:], "[...]", "")
	return strings.ReplaceAll(name, ";", ":")
}

// text is a line for each stack, in their order.
func (all stacks) text() []byte {
	var b bytes.Buffer
	for _, s := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s %d\n", s, all[s])
	}
	return b.Bytes()
}

// parse reads what text wrote.
func parse(text []byte) (stacks, error) {
	all := stacks{}
	for line := range strings.Lines(string(text)) {
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[i+1:]), 10, 64)
		if i < 1 || err != nil || n < 1 {
			return nil, fmt.Errorf("a line is a stack, a space and samples, and there is %q", line)
		}
		all[line[:i]] += n
	}
	return all, nil
}

// A frame is a function with all that it calls.
type frame struct {
	name    string
	samples int64
	calls   []*frame // by name
}

// tree puts stacks together that begin alike.
func (all stacks) tree() *frame {
	root := new(frame)
	for _, s := range slices.Sorted(maps.Keys(all)) {
		at := root
		at.samples += all[s]
		for name := range strings.SplitSeq(s, ";") {
			i, found := slices.BinarySearchFunc(at.calls, name, func(f *frame, name string) int { return cmp.Compare(f.name, name) })
			if !found {
				at.calls = slices.Insert(at.calls, i, &frame{name: name})
			}
			at = at.calls[i]
			at.samples += all[s]
		}
	}
	return root
}
