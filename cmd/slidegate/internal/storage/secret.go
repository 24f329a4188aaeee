package storage

import (
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
)

// explain returns an error without the passwords that may be in it: an old server repeats what it does
// not understand, AUTH and its arguments included.
func (a *Address) explain(err error) error {
	text := err.Error()
	for _, secret := range a.secrets() {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	if a.kind < cluster && strings.HasPrefix(text, "MOVED ") {
		text += " (this is a node of a cluster: --store redis+cluster://HOST:PORT,HOST:PORT)"
	}
	if len(a.secrets()) == 0 && (strings.Contains(text, "NOAUTH") || strings.Contains(text, "unauthenticated multibulk length")) {
		text = "it wants a password, and none is given: put it into $" + config.StorePassword + " or a file (" + text + ")"
	}
	if text == err.Error() {
		return err
	}
	return &told{text, err}
}

// told is an error in other words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }

// Unwrap returns the error; its text may hold a password, so nobody prints it.
func (t *told) Unwrap() error { return t.err }
