// Package bans is the list of keys that people who run a server have banned: a store that refuses them wherever they
// ask, and the list itself, which processes over one Redis share.
package bans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Most is how many keys may be banned at a time. A list is read as a whole by every process.
const Most = 10_000

// A Ban refuses a key until its time is up.
type Ban struct {
	Key    string
	Since  time.Time
	Until  time.Time
	Reason string // why, in the words of who banned; may be empty
}

// ErrFull is wrapped by the error of a ban that finds no room.
var ErrFull = errors.New("no more keys can be banned")

// A table is the bans by their keys. It is never changed once others can see it.
type table map[string]Ban

// A List is what keys are banned. It is safe for concurrent use: looking takes no lock, and where nobody is banned no
// look-up either.
type List struct {
	shared *Shared // nil for a list of this process alone
	now    func() time.Time

	mu       sync.Mutex // of changing
	bans     atomic.Pointer[table]
	failures atomic.Uint64
}

// NewList returns a list that is empty, or, with shared, what the processes over one Redis have banned, once
// [List.Follow] or a change has asked for it. Bans that are not shared end with the process.
func NewList(shared *Shared) *List {
	l := &List{shared: shared, now: time.Now}
	l.bans.Store(&table{})
	return l
}

// Banned returns until when a key is banned, the zero time if it is not. A ban of a key is one of every key that has it
// as a part, as [httpgate.Join] makes them, and in every domain of rules.
func (l *List) Banned(key string) time.Time {
	bans := *l.bans.Load()
	if len(bans) == 0 {
		return time.Time{}
	}
	now, latest := l.now(), time.Time{}
	look := func(part string) {
		if b, ok := bans[part]; ok && b.Until.After(now) && b.Until.After(latest) {
			latest = b.Until
		}
	}
	look(key)
	if inner, ok := inDomain(key); ok {
		key = inner
		look(key)
	}
	eachPart(key, look)
	return latest
}

// inDomain returns a key without the domain of rules that it is counted in.
func inDomain(key string) (inner string, ok bool) {
	if rest, ok := strings.CutPrefix(key, "domain:"); ok {
		_, inner, ok = strings.Cut(rest, "|")
		return inner, ok
	}
	return "", false
}

// eachPart calls f for the parts of a key that is made of several: each has its length before it, as in
// 14:ip:203.0.113.9|7:path:/a.
func eachPart(key string, f func(part string)) {
	for key != "" && '1' <= key[0] && key[0] <= '9' {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n > len(rest) {
			return
		}
		f(rest[:n])
		key = strings.TrimPrefix(rest[n:], "|")
	}
}

// All returns the bans that hold now, those that end first before others.
func (l *List) All() []Ban {
	now := l.now()
	all := slices.DeleteFunc(slices.Collect(maps.Values(*l.bans.Load())), func(b Ban) bool { return !b.Until.After(now) })
	slices.SortFunc(all, func(a, b Ban) int {
		if c := a.Until.Compare(b.Until); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	return all
}

// Len returns how many bans hold now.
func (l *List) Len() int { return len(l.All()) }

// Failures returns how often a list that is shared could not be read or changed.
func (l *List) Failures() uint64 { return l.failures.Load() }

// Add bans a key for a length from now on, whatever ban there was. The error wraps [ErrFull], or says that the list,
// where it is shared, could not be changed.
func (l *List) Add(ctx context.Context, key string, length time.Duration, reason string) (Ban, error) {
	now := l.now().Truncate(time.Millisecond)
	b := Ban{Key: key, Since: now, Until: now.Add(length), Reason: reason}
	err := l.change(ctx, func(bans table) error {
		if _, there := bans[key]; !there && len(bans) >= Most {
			return fmt.Errorf("%w: allowed are %d at a time", ErrFull, Most)
		}
		bans[key] = b
		return nil
	})
	return b, err
}

// Remove ends the ban of a key, and tells whether there was one.
func (l *List) Remove(ctx context.Context, key string) (there bool, err error) {
	err = l.change(ctx, func(bans table) error {
		_, there = bans[key]
		delete(bans, key)
		return nil
	})
	return there && err == nil, err
}

// change edits a copy of the list without those that are over, and puts it in its place: in Redis too, where it is
// shared, and as it is there, since others may have changed it.
func (l *List) change(ctx context.Context, edit func(table) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	edited := func() (table, error) {
		next := table{}
		for _, b := range l.All() {
			next[b.Key] = b
		}
		return next, edit(next)
	}
	if l.shared == nil {
		next, err := edited()
		if err == nil {
			l.bans.Store(&next)
		}
		return err
	}
	for {
		next, err := edited()
		if err != nil {
			return err
		}
		written, err := l.exchange(ctx, &next)
		if written || err != nil {
			return err
		}
	}
}

// exchange writes a list if nobody else has written one since this process has read it, and reads it otherwise, or
// where next is nil.
func (l *List) exchange(ctx context.Context, next *table) (written bool, err error) {
	reply, err := l.shared.exchange(ctx, next)
	switch {
	case err != nil:
		l.failures.Add(1)
		return false, err
	case reply.written:
		l.bans.Store(next)
	case reply.bans != nil:
		l.bans.Store(&reply.bans)
	}
	return reply.written, nil
}

// Follow takes up what other processes ban, once in every interval until ctx ends. A list that cannot be read is that
// which was read last.
func (l *List) Follow(ctx context.Context, interval time.Duration) {
	if l.shared == nil {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		l.mu.Lock()
		_, _ = l.exchange(ctx, nil) // counted
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
