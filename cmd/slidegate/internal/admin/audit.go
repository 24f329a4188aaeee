package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Change is what somebody wants to change.
type Change struct {
	Action string `json:"action"` // reset, ban or unban
	By     string `json:"by"`
	From   string `json:"from,omitempty"`
	Key    string `json:"key"`
	Rule   string `json:"rule,omitempty"`
	Length string `json:"length,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// An entry is a line of the audit log. A change has two, with the same id.
type entry struct {
	Time string `json:"time"`
	ID   string `json:"id"`
	Change
	Result string `json:"result"` // begun; then done, or failed
	Error  string `json:"error,omitempty"`
}

// An Audit writes down who changes what, in a file or in the log of the process. It is safe for concurrent use.
type Audit struct {
	path   string // empty for the log
	log    *slog.Logger
	secret []byte // keys are hashed with it; nil where they are written as they are

	mu sync.Mutex // a line at a time
}

// NewAudit returns one that appends to a file, or, if path is empty, writes to a logger. The file is opened for every
// line, so it may be moved away at any time. Its error says that it cannot be written now.
//
// Keys are people: where they are not plain, a line has the beginning of their HMAC-SHA-256 under secret, so that who
// knows both can find the lines of a key.
func NewAudit(path string, log *slog.Logger, plain bool, secret string) (*Audit, error) {
	a := &Audit{path: path, log: log}
	if !plain {
		a.secret = []byte(secret)
	}
	if !plain && secret == "" {
		a.secret = make([]byte, sha256.Size)
		_, _ = rand.Read(a.secret) // which never fails
	}
	if path == "" {
		return a, nil
	}
	f, err := a.open()
	if err != nil {
		return nil, err
	}
	return a, f.Close()
}

func (a *Audit) open() (*os.File, error) {
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|atOnce, 0o600)
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return f, err
}

// begin writes down that a change is about to be made.
func (a *Audit) begin(c Change) (*entry, error) {
	c.Key = a.masked(c.Key)
	var id [8]byte
	_, _ = rand.Read(id[:]) // which never fails
	e := &entry{ID: hex.EncodeToString(id[:]), Change: c, Result: "begun"}
	err := a.write(e)
	if err != nil {
		a.log.Error("the audit log cannot be written: nothing is changed", "error", err)
	}
	return e, err
}

// end writes down what came of it. That it was made cannot be undone: if the file cannot take it, the log has to.
func (a *Audit) end(e *entry, failed error) {
	e.Result = "done"
	if failed != nil {
		e.Result, e.Error = "failed", failed.Error()
	}
	if err := a.write(e); err != nil {
		a.log.Error("the audit log cannot be written, and the change was begun", "error", err)
		a.say(e)
	}
}

// masked returns a key as it stands in a line.
func (a *Audit) masked(key string) string {
	if a.secret == nil {
		return key
	}
	h := hmac.New(sha256.New, a.secret)
	h.Write([]byte(key))
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (a *Audit) write(e *entry) error {
	e.Time = time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00")
	if a.path == "" {
		a.say(e)
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := a.open()
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = synced(f)
	}
	return errors.Join(err, f.Close())
}

// synced has what was written outlive the machine, where the file is one that can be.
func synced(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (a *Audit) say(e *entry) {
	attributes := []any{"id", e.ID, "action", e.Action, "by", e.By, "key", e.Key, "result", e.Result}
	for _, more := range [][2]string{{"from", e.From}, {"rule", e.Rule}, {"length", e.Length}, {"reason", e.Reason}, {"error", e.Error}} {
		if more[1] != "" {
			attributes = append(attributes, more[0], more[1])
		}
	}
	a.log.Info("admin", attributes...)
}
