package main

import (
	"regexp"
	"strings"
)

// A luaToken is a word, a number, a string, a comment or an operator of Lua.
type luaToken struct {
	text string
	at   int
}

var luaTokens = regexp.MustCompile(`--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:e\d+)?|[A-Za-z_]\w*|\.\.\.?|[<>=~]=|[^\s\w]`)

// luaOthers are tokens that are easily mistaken for one another: boundaries of comparisons, the opposite of operators.
var luaOthers = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"~="}, "~=": {"=="},
	"+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"},
	"and": {"or"}, "or": {"and"}, "not": {""}, "true": {"false"}, "false": {"true"},
}

// luaMutants calls add for every mutant of a Lua text, with its name and its whole text.
func luaMutants(src string, add func(name, text string)) {
	var all []luaToken
	for _, m := range luaTokens.FindAllStringIndex(src, -1) {
		if t := src[m[0]:m[1]]; !strings.HasPrefix(t, "--") {
			all = append(all, luaToken{t, m[0]})
		}
	}
	where := "script"
	put := func(from, to int, other string) {
		add(nameOf(where, src, from, to, other), src[:from]+other+src[to:])
	}
	for i, t := range all {
		before := luaToken{}
		if i > 0 {
			before = all[i-1]
		}
		line := lineOf(src, t.at)
		if line == "end" {
			where = "script"
		}
		switch {
		case t.text == "function" && i+1 < len(all) && isLuaName(all[i+1].text) && line[0] != ' ':
			where = all[i+1].text
		case t.text == "-" && !isLuaOperand(before.text): // a sign
			put(t.at, t.at+1, "")
		case t.text[0] >= '0' && t.text[0] <= '9':
			put(t.at, t.at+len(t.text), "("+t.text+"+1)")
			put(t.at, t.at+len(t.text), "("+t.text+"-1)")
		default:
			for _, other := range luaOthers[t.text] {
				put(t.at, t.at+len(t.text), other)
			}
		}
	}
	where = "script"
	offset := 0
	for line := range strings.Lines(src) {
		if name := luaFunction.FindStringSubmatch(line); name != nil {
			where = name[1]
		} else if line == "end\n" {
			where = "script"
		}
		if m := luaStatement.FindStringSubmatchIndex(line); m != nil && isLuaStatement(line[m[2]:m[3]], src[offset+len(line):]) {
			put(offset+m[2], offset+m[3], "")
		}
		offset += len(line)
	}
}

var (
	luaFunction  = regexp.MustCompile(`^(?:local )?function (\w+)`)
	luaStatement = regexp.MustCompile(`^\s*([A-Za-z_][^\n]*?)\s*(?:--[^\n]*)?\n`)
	luaKeyword   = regexp.MustCompile(`^(?:local|function|if|then|else|elseif|for|while|repeat|until|do|end|return|break|and|or|not)\b`)
)

// isLuaStatement tells whether a line is a whole assignment or call.
func isLuaStatement(line, rest string) bool {
	if luaKeyword.MatchString(line) || !strings.ContainsAny(line, "=(") {
		return false
	}
	depth := 0
	for _, t := range luaTokens.FindAllString(line, -1) {
		switch t {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
	}
	next := strings.TrimSpace(rest)
	return depth == 0 && !strings.HasPrefix(next, "..") && !strings.HasSuffix(line, ",")
}

func isLuaName(t string) bool { return t[0] >= 'a' && t[0] <= 'z' || t[0] >= 'A' && t[0] <= 'Z' }

// isLuaOperand tells whether a token may end an operand, so that a minus behind it is no sign.
func isLuaOperand(t string) bool {
	return t != "" && (strings.ContainsAny(t[len(t)-1:], ")]'\"") || t[0] >= '0' && t[0] <= '9' || isLuaName(t) && !luaKeyword.MatchString(t))
}

// lineOf returns the line that has a position.
func lineOf(src string, at int) string {
	begin := strings.LastIndexByte(src[:at], '\n') + 1
	end := strings.IndexByte(src[at:], '\n')
	return src[begin : at+end]
}
