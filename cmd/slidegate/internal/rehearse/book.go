package rehearse

import (
	"encoding/binary"
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/accesslog"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/timeline"
)

// A Book has the distinct subjects of a log as policies see it.
type Book struct {
	Clients timeline.Subjects

	policies []*Policy
	names    *timeline.Subjects
	asked    []*Asked // by the number of the subject
}

// An Asked is who asked, and what each policy makes of it.
type Asked struct {
	Client uint32 // its number among the clients of the book

	Rest  string // what else was written of it
	parts []part // by the place of the policy
}

// A part is what one policy makes of a subject.
type part struct {
	key      string          // of limits
	matching *rules.Matching // of rules
}

// Matching returns what rules make of it, nil for a policy of limits.
func (a *Asked) Matching(policy int) *rules.Matching { return a.parts[policy].matching }

// NewBook returns a book for some policies. Clients are told apart as the first one with rules does, else as the first does.
func NewBook(policies ...*Policy) *Book { return &Book{policies: policies} }

// teller is the policy that tells clients apart.
func (b *Book) teller() *Policy {
	for _, p := range b.policies {
		if p.File != nil {
			return p
		}
	}
	return b.policies[0]
}

// Subjects returns what makes a subject of a record, for the log that the book is of.
func (b *Book) Subjects() accesslog.Subject {
	var q http.Request
	var one []byte
	teller := b.teller()
	return func(r *accesslog.Record, to []byte) (_ []byte, err error) {
		if r.Key == nil {
			r.Fill(&q)
		}
		write := func(tell func(*accesslog.Record, *http.Request, []byte) ([]byte, error)) {
			if err == nil {
				one, err = tell(r, &q, one[:0])
				to = append(binary.AppendUvarint(to, uint64(len(one))), one...)
			}
		}
		if r.Key != nil && teller.File != nil {
			return nil, errNoRequest
		}
		write(teller.client)
		for _, p := range b.policies {
			write(p.subject)
		}
		return to, err
	}
}

// Of says where the names of the subjects are.
func (b *Book) Of(names *timeline.Subjects) { b.names = names }

// Asked returns what an event is.
func (b *Book) Asked(e *timeline.Event) *Asked {
	if missing := b.names.Len() - len(b.asked); missing > 0 {
		b.asked = append(b.asked, make([]*Asked, missing)...)
	}
	if b.asked[e.Subject] == nil {
		b.asked[e.Subject] = b.read([]byte(b.names.Name(e.Subject)))
	}
	return b.asked[e.Subject]
}

// All returns what has been asked for by Asked.
func (b *Book) All() (all []*Asked) {
	for _, a := range b.asked {
		if a != nil {
			all = append(all, a)
		}
	}
	return all
}

func (b *Book) read(name []byte) *Asked {
	next := func() []byte {
		n, size := binary.Uvarint(name)
		one := name[size : size+int(n)]
		name = name[size+int(n):]
		return one
	}
	a := &Asked{Client: b.Clients.Number(next()), parts: make([]part, len(b.policies))}
	for i, p := range b.policies {
		if p.File != nil {
			a.parts[i].matching = p.matcher.Read(next())
		} else {
			a.parts[i].key = string(next())
		}
	}
	a.Rest = string(name)
	return a
}
