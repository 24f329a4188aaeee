package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a file. The text names what was asked for, the value, and what
// is allowed.
type Problem struct {
	File string
	Line int // from 1; 0 where it is about the file as a whole
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems are all that is wrong with a file, in the order of its lines. As an error they are one on a line.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// mostProblems is how many are told of: a file of another kind has one on every line.
const mostProblems = 50

// sorted returns the problems in the order of files and lines, without those said twice.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	p = slices.Compact(p)
	if len(p) > mostProblems {
		more := Problem{File: p[0].File, Text: fmt.Sprintf("and %d more", len(p)-mostProblems)}
		p = append(p[:mostProblems:mostProblems], more)
	}
	return p
}

// didYouMean is the word of a list that a misspelt one is likely to be, as the beginning of a sentence, or
// empty.
func didYouMean(word string, words []string) string {
	best, nearest := "", 3
	if len(word) < 4 {
		nearest = 2
	}
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < nearest {
			best, nearest = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q? ", best)
}

// distance is the number of letters to add, drop, change or swap with the next that make one word of another.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// inWords is a list as a sentence has it: a, b or c.
func inWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
