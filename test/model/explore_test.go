package model

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A space is a model: where it begins, what may happen next, and what holds in each state.
type space[S comparable] struct {
	begin  S
	next   func(s S, to func(what string, next S))
	bounds []bound[S]
}

// A bound says that in every state something held is no more than something allowed.
type bound[S comparable] struct {
	name string
	of   func(S) (held, most int)
	peak int // the most that is held in any state: a bound that is never met would promise too little
}

// Findings are what came of visiting all states.
type findings struct {
	states, steps int
	peaks         []int
	broken        string   // the first bound that does not hold, in a state that is reached by the fewest steps
	path          []string // the steps that lead there
}

// explore visits every state, breadth first, up to the first in which a bound does not hold.
func (m space[S]) explore() findings {
	f := findings{peaks: make([]int, len(m.bounds))}
	seen := map[S]struct{}{m.begin: {}}
	type visit struct {
		state  S
		before int
		what   string
	}
	queue := []visit{{m.begin, -1, ""}}
	for i := 0; i < len(queue); i++ {
		if f.broken = m.judge(queue[i].state, f.peaks); f.broken != "" {
			f.states = len(queue)
			for at := i; at > 0; at = queue[at].before {
				f.path = append([]string{queue[at].what}, f.path...)
			}
			return f
		}
		m.next(queue[i].state, func(what string, s S) {
			f.steps++
			if _, old := seen[s]; !old {
				seen[s] = struct{}{}
				queue = append(queue, visit{s, i, what})
			}
		})
	}
	f.states = len(queue)
	return f
}

// judge returns the bound that does not hold in a state, and keeps the peaks.
func (m space[S]) judge(s S, peaks []int) (broken string) {
	for i, b := range m.bounds {
		held, most := b.of(s)
		if held > most {
			return fmt.Sprintf("%s: %d, allowed is %d, in %+v", b.name, held, most, s)
		}
		peaks[i] = max(peaks[i], held)
	}
	return ""
}

// mustHold visits every state and fails the test if a bound does not hold in one, or is met in none. The page has the number
// of states.
func (m space[S]) mustHold(t *testing.T, name string) {
	t.Helper()
	f := m.explore()
	if f.broken != "" {
		t.Fatalf("%s\nafter %s", f.broken, strings.Join(f.path, ", "))
	}
	for i, b := range m.bounds {
		if f.peaks[i] != b.peak {
			t.Errorf("%s: the most is %d, want %d", b.name, f.peaks[i], b.peak)
		}
	}
	t.Logf("%d states, %d steps", f.states, f.steps)
	page, err := os.ReadFile("../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	if row := fmt.Sprintf("| %s | %d |", name, f.states); !strings.Contains(string(page), row) {
		t.Errorf("docs/model.md has no row %q", row)
	}
}

// mustBreak fails the test unless a bound of that name is found not to hold.
func (m space[S]) mustBreak(t *testing.T, name string) {
	t.Helper()
	f := m.explore()
	if !strings.HasPrefix(f.broken, name) {
		t.Fatalf("%d states and no break of %q: %s", f.states, name, f.broken)
	}
	t.Logf("%s\nafter %s", f.broken, strings.Join(f.path, ", "))
}

// sum adds up.
func sum[T ~int8](all ...T) (n int) {
	for _, v := range all {
		n += int(v)
	}
	return n
}
