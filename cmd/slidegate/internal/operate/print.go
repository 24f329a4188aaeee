package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/admin"
)

// at is a time of an answer, in words.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func wait(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// safe is text of others as it may be shown on a terminal.
func safe(text string) string {
	quoted := fmt.Sprintf("%q", text)
	if quoted == `"`+text+`"` {
		return text
	}
	return quoted
}

// table lays out rows, the first of which has the names of the columns.
func table(b *strings.Builder, rows [][]string) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // a builder takes everything
}

func printInspection(answer []byte) (string, error) {
	var in admin.Inspection
	if err := json.Unmarshal(answer, &in); err != nil {
		return "", err
	}
	var b strings.Builder
	if in.Ban != nil {
		fmt.Fprintf(&b, "banned%s, for %s more, until %s%s\n\n", by(in.Ban), wait(in.Ban.RetryMS), at(in.Ban.Until), because(in.Ban))
	}
	for i := range in.Rules {
		printCounts(&b, &in.Rules[i])
	}
	if len(in.Rules) == 0 {
		b.WriteString("no rule counts a key\n")
	}
	return b.String(), nil
}

func printCounts(b *strings.Builder, c *admin.Counts) {
	verdict := "would be admitted"
	if !c.Allowed {
		verdict = "would be refused"
	}
	if !c.Allowed && len(c.Limits) > 0 {
		verdict += ", retry in " + wait(c.RetryMS)
	}
	switch {
	case c.Plan != "":
		verdict = c.Rule + " (" + c.Plan + "): " + verdict
	case c.Rule != "":
		verdict = c.Rule + ": " + verdict
	}
	rows, isUntouched := [][]string{{"limit", "quota", "used", "remaining", "reset", "retry"}}, len(c.Limits) > 0
	for _, l := range c.Limits {
		isUntouched = isUntouched && len(l.Charges) == 0 && !l.More
		rows = append(rows, []string{l.Name, fmt.Sprint(l.Quota), fmt.Sprint(l.Used), fmt.Sprint(l.Remaining), wait(l.ResetMS), wait(l.RetryMS)})
	}
	if isUntouched {
		fmt.Fprintf(b, "%s: nothing is counted for this key\n\n", verdict)
		return
	}
	fmt.Fprintf(b, "%s\n\n", verdict)
	if len(c.Limits) > 0 {
		table(b, rows)
		b.WriteString("\n")
	}
	for i := range c.Limits {
		printCharges(b, &c.Limits[i], c.Time)
	}
}

func printCharges(b *strings.Builder, l *admin.Limits, now int64) {
	if len(l.Charges) == 0 {
		return
	}
	fmt.Fprintf(b, "what counts in %s, the first to leave first:\n\n", l.Name)
	rows := [][]string{{"units", "charged", "leaves", "in"}}
	for _, c := range l.Charges {
		rows = append(rows, []string{fmt.Sprint(c.Units), at(c.Time), at(c.Leaves), wait(c.Leaves - now)})
	}
	table(b, rows)
	if l.More {
		b.WriteString("and more: see --charges\n")
	}
	b.WriteString("\n")
}

func by(ban *admin.Ban) string {
	if ban.By == "admin" {
		return ""
	}
	return " by rule " + ban.By
}

func because(ban *admin.Ban) string {
	if ban.Reason == "" {
		return ""
	}
	return ": " + safe(ban.Reason)
}

func printReset(answer []byte) (string, error) {
	var reset admin.Reset
	if err := json.Unmarshal(answer, &reset); err != nil {
		return "", err
	}
	if len(reset.Rules) == 1 && reset.Rules[0] == "" {
		return "forgotten in every limit\n", nil
	}
	return fmt.Sprintf("forgotten in %s\n", strings.Join(reset.Rules, ", ")), nil
}

func printBan(answer []byte) (string, error) {
	var ban admin.Ban
	if err := json.Unmarshal(answer, &ban); err != nil {
		return "", err
	}
	return fmt.Sprintf("banned until %s\n", at(ban.Until)), nil
}

func printUnban(answer []byte) (string, error) {
	var unban admin.Unban
	if err := json.Unmarshal(answer, &unban); err != nil {
		return "", err
	}
	if !unban.Banned {
		return "no ban of this key was known; it has none now\n", nil
	}
	return "it is banned no more\n", nil
}

func printBans(answer []byte) (string, error) {
	var all admin.Bans
	if err := json.Unmarshal(answer, &all); err != nil {
		return "", err
	}
	if len(all.Bans) == 0 {
		return "nobody is banned\n", nil
	}
	rows := [][]string{{"key", "by", "until", "left", "reason"}}
	for _, ban := range all.Bans {
		rows = append(rows, []string{safe(ban.Key), ban.By, at(ban.Until), wait(ban.RetryMS), safe(ban.Reason)})
	}
	var b strings.Builder
	table(&b, rows)
	return b.String(), nil
}

func printRefusals(answer []byte) (string, error) {
	var recent admin.Recent
	if err := json.Unmarshal(answer, &recent); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d refused since the start, %d kept\n", recent.Total, len(recent.Refusals))
	if len(recent.Refusals) == 0 {
		return b.String(), nil
	}
	rows := [][]string{{"when", "reason", "key", "rule", "limit", "retry", ""}}
	for _, r := range recent.Refusals {
		shadow := ""
		if r.Shadow {
			shadow = "passed: shadow"
		}
		rows = append(rows, []string{at(r.Time), r.Reason, safe(r.Key), r.Rule, r.Limit, wait(r.RetryMS), shadow})
	}
	b.WriteString("\n")
	table(&b, rows)
	return b.String(), nil
}

func printRules(answer []byte) (string, error) {
	var b bytes.Buffer
	err := json.Indent(&b, answer, "", "  ")
	return b.String(), err
}
