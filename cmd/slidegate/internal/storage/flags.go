// Package storage is where the state of keys is: in this process, or in Redis. It reads the flags that
// tell, and makes clients of Redis of them. No password is ever printed.
package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/redisstore"
)

// Flags are what a command is told of its store, as text.
type Flags struct {
	store, prefix, client, passwordFile string
	timeout                             time.Duration
	set                                 *pflag.FlagSet
}

// Defaults are what a command does unless a flag says otherwise.
type Defaults struct {
	Store   string // empty where there is none
	Prefix  string // empty where each run has its own
	Timeout time.Duration
}

// clients are the Redis clients there are; the first is the default.
var clients = []string{"rueidis", "goredis"}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command, d Defaults) {
	f.set = cmd.Flags()
	memory := "memory, or "
	if d.Store == "" {
		memory = ""
	}
	f.set.StringVar(&f.store, "store", d.Store, "where the state is: "+memory+"the `URL` of a Redis: redis://HOST:PORT/DB, rediss:// with TLS, redis+cluster://HOST:PORT,HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER, unix:///PATH")
	f.set.StringVar(&f.passwordFile, "store-password-file", "", "the `file` with the password of Redis, which may also be in $"+config.StorePassword+" or, with the whole URL, in $SLIDEGATE_STORE (default: no password)")
	about := "what the keys in Redis begin with: a `word`"
	if d.Prefix == "" {
		about += " (default: slidegate-replay- and a number that each run draws)"
	}
	f.set.StringVar(&f.prefix, "store-prefix", d.Prefix, about)
	f.set.DurationVar(&f.timeout, "store-timeout", d.Timeout, "how long Redis may take to answer, 1ms to 1m")
	f.set.StringVar(&f.client, "client", clients[0], "the `library` that speaks to Redis: rueidis or goredis")
	for flag, values := range map[string][]string{"store": {"memory", "redis://"}, "client": clients} {
		// The error is of a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	}
}

// IsMemory tells whether the state is in this process.
func (f *Flags) IsMemory() bool { return strings.TrimSpace(f.store) == "memory" }

// A Redis is what the flags say of one; nothing is connected.
type Redis struct {
	Address *Address
	Prefix  string // empty where each run has its own
	Timeout time.Duration

	IsPrefixFromVariable bool

	client    string
	isExposed bool // a password is on the command line
}

// Redis reads the flags, nil for memory. Every error is of usage.
func (f *Flags) Redis() (*Redis, error) {
	if f.IsMemory() {
		return nil, config.RefuseFlags(f.set, "it is about Redis, and --store is memory", "store-prefix", "store-timeout", "client", "store-password-file", "store-cleanup")
	}
	if strings.TrimSpace(f.store) == "" {
		return nil, config.Usagef("--store is missing: give the Redis that serve uses, such as --store redis://127.0.0.1:6379/0")
	}
	if !slices.Contains(clients, f.client) {
		return nil, config.Usagef("--client %q: allowed is %s", f.client, strings.Join(clients, " or "))
	}
	if f.timeout < time.Millisecond || f.timeout > time.Minute {
		return nil, config.Usagef("--store-timeout %s: allowed is 1ms to 1m", f.timeout)
	}
	if (f.prefix != "" || f.set.Lookup("store-prefix").DefValue != "") && !redisstore.IsPrefix(f.prefix) {
		return nil, config.Usagef("--store-prefix %q: allowed is text that is not blank, without braces and control characters", f.prefix)
	}
	address, err := f.address()
	if err != nil {
		return nil, err
	}
	r := &Redis{Address: address, Prefix: f.prefix, Timeout: f.timeout, client: f.client}
	r.IsPrefixFromVariable = f.set.Changed("store-prefix") && !config.IsOnCommandLine(f.set.Lookup("store-prefix"))
	r.isExposed = len(address.secrets()) > 0 && config.IsOnCommandLine(f.set.Lookup("store"))
	if err := f.findPassword(address); err != nil {
		return nil, err
	}
	return r, nil
}

func (f *Flags) address() (*Address, error) {
	address, err := ParseAddress(f.store)
	var form *formError
	switch {
	case errors.As(err, &form) && f.set.Lookup("store").DefValue == "memory":
		return nil, config.Usagef("--store%s: allowed is memory, or %s", form.got, urlForms)
	case form != nil:
		return nil, config.Usagef("--store%w", err)
	case err != nil:
		return nil, config.Usagef("--store: %w", err)
	}
	return address, nil
}

// Warning is what to say before anything else, if there is something.
func (r *Redis) Warning() string {
	if r == nil || !r.isExposed {
		return ""
	}
	return "the password in --store can be read by everybody on this machine, in the list of processes: put the URL into $SLIDEGATE_STORE, or the password into $" + config.StorePassword + " or a file"
}

// Warn says it to whoever called a command.
func Warn(w io.Writer, r *Redis) {
	if warning := r.Warning(); warning != "" {
		fmt.Fprintln(w, "slidegate:", warning)
	}
}

// findPassword takes the password from where it is, which may be one place only.
func (f *Flags) findPassword(a *Address) error {
	fromEnvironment := os.Getenv(config.StorePassword)
	var places []string
	for _, p := range []struct{ place, password string }{
		{"--store", a.password}, {"--store-password-file", f.passwordFile}, {"$" + config.StorePassword, fromEnvironment},
	} {
		if p.password != "" {
			places = append(places, p.place)
		}
	}
	if len(places) > 1 {
		return config.Usagef("%s: a password is given twice, and one is enough", strings.Join(places, " and "))
	}
	if fromEnvironment != "" {
		a.password = fromEnvironment
	}
	if f.passwordFile != "" {
		password, err := config.ReadSecret(f.passwordFile, "password")
		if err != nil {
			return config.Usagef("--store-password-file: %w", err)
		}
		a.password = password
	}
	if a.username != "" && a.password == "" {
		return config.Usagef("--store: there is a user name and no password; a password alone has a colon before it, as in redis://:PASSWORD@HOST")
	}
	return nil
}

// Options are those of the store.
func (r *Redis) Options() []redisstore.Option {
	return []redisstore.Option{redisstore.WithPrefix(r.Prefix), redisstore.WithTimeout(r.Timeout)}
}
