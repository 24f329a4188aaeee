package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
)

// A Script is Lua source that Redis runs as one act. The store has four, they never change while a
// program runs, and what a [Client] needs of them is worked out once.
type Script struct{ name, source, hash string }

// Name returns what the script does: of the store's own "take", "refund", "reset" or "charges".
func (s *Script) Name() string { return s.name }

// Source returns the Lua text, for EVAL.
func (s *Script) Source() string { return s.source }

// Hash returns the SHA-1 of the source in lower-case hexadecimal, for EVALSHA.
func (s *Script) Hash() string { return s.hash }

//go:embed common.lua take.lua refund.lua reset.lua charges.lua
var lua embed.FS

var (
	takeScript    = newScript("take")
	refundScript  = newScript("refund")
	resetScript   = newScript("reset")
	chargesScript = newScript("charges")
)

// NewScript returns a script of your own, for a program that has another use for the [Client] of its store. It must
// reply a flat array of integers.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, hash: hex.EncodeToString(sum[:])}
}

// newScript puts the functions that the scripts share in front of one of them.
func newScript(name string) *Script {
	return NewScript(name, luaFile("common")+"\n"+luaFile(name))
}

func luaFile(name string) string {
	text, err := lua.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // the compiler put it there
	}
	return string(text)
}
