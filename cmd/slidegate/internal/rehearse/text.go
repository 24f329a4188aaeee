package rehearse

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteTable writes rows whose first column is to the left and whose others are to the right.
func WriteTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// Printable keeps a key from writing to the terminal anything but its characters, and not too
// many of them. Blanks around it are seen.
func Printable(key string) string {
	const most = 60
	quoted := strconv.Quote(key)
	if plain := quoted[1 : len(quoted)-1]; plain == key && strings.TrimSpace(key) == key {
		quoted = plain
	}
	if runes := []rune(quoted); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return quoted
}

// Share writes a part of a whole as a percentage, nothing where there is no whole.
func Share(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf("%5.1f %%", 100*float64(part)/float64(whole))
}

// Thousands writes 28208 as 28,208.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
