// Package config reads what the commands are told: flags, their environment variables, and limits.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slidegate/slidegate"
)

// A UsageError says what was asked for that cannot be done. The program ends with status 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// An ExitError ends the program with a status of its own. Without Err there is nothing left to say.
type ExitError struct {
	Status int
	Err    error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// FlagError is what the command line's parser has to say, as a UsageError that also tells which
// values are allowed.
func FlagError(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return badValue("--"+bad.GetFlag().Name, bad.GetFlag(), bad.GetValue())
	}
	return Usagef("%s: %w", cmd.Name(), err)
}

// badValue names a flag, or its variable, by which a value was given that its type does not have.
func badValue(name string, f *pflag.Flag, value string) error {
	return Usagef("%s %q: allowed is %s", name, value, Allowed(f))
}

// Allowed says which values the type of a flag has.
func Allowed(f *pflag.Flag) string {
	allowed, ok := map[string]string{
		"int": "a whole number", "int64": "a whole number", "duration": "a duration such as 10s", "bool": "true or false", "stringSlice": "values between commas",
	}[f.Value.Type()]
	if !ok {
		allowed = "a " + f.Value.Type()
	}
	return allowed
}

// LimitsUsage is the help of the flag that takes limits.
const LimitsUsage = "a `limit`, [name=]QUOTA/WINDOW[,counter][,resolution=DUR], such as 100/1m or burst=10/s; repeat the flag for up to 8"

// Limits reads the limits of a command, at least one. It makes a limiter of nothing: errors come
// before anything is started.
func Limits(texts []string) ([]slidegate.Limit, error) {
	if len(texts) == 0 {
		return nil, Usagef("--limit is missing: give at least one, such as --limit 100/1m")
	}
	limits := make([]slidegate.Limit, len(texts))
	for i, text := range texts {
		l, err := slidegate.ParseLimit(strings.TrimSpace(text))
		if err != nil {
			return nil, Usagef("--limit: %w", err)
		}
		limits[i] = l
	}
	return limits, nil
}

// Upstream reads the URL of a service behind. Its errors say what is allowed, and show no password.
func Upstream(text string) (*url.URL, error) {
	const allowed = "allowed is a URL of http, https or h2c with a host, such as http://127.0.0.1:3000"
	u, err := url.Parse(text)
	if err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return nil, errors.New("a user, a query or a fragment has no place in it")
	}
	if err != nil || u.Hostname() == "" || u.Port() != "" && !IsPort(u.Port()) || !slices.Contains([]string{"http", "https", "h2c"}, u.Scheme) {
		return nil, errors.New(allowed)
	}
	return u, nil
}

// IsPort tells whether a text is the number of a port, 0 to 65535.
func IsPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

const prefix = "SLIDEGATE_"

// StorePassword is the environment variable of the password of Redis. No flag has its name, for a
// command line can be read by everybody on the machine.
const StorePassword = prefix + "STORE_PASSWORD"

// APIToken is the environment variable of the token that callers of the JSON door show. No flag has its name either.
const APIToken = prefix + "API_TOKEN"

// AdminToken is the environment variable of the token that those who run the process show.
const AdminToken = prefix + "ADMIN_TOKEN"

// Variable returns the name of the environment variable of a flag.
func Variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Describe appends the name of its environment variable to the help of every flag of a command.
func Describe(cmd *cobra.Command) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !internal(f) {
			f.Usage += " [$" + Variable(f.Name) + "]"
		}
	})
}

func internal(f *pflag.Flag) bool { return f.Name == "help" || f.Name == "version" }

// Environment sets the flags that the command line did not from their variables. An empty variable is
// as one that is not there. A flag that may be repeated takes several values between ';' or line
// ends, since a comma belongs to a limit.
func Environment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := strings.TrimSpace(os.Getenv(Variable(f.Name)))
		if err == nil && value != "" && !f.Changed && !internal(f) {
			err = set(cmd.Flags(), f, value)
			annotate(f, fromVariable, Variable(f.Name))
		}
	})
	return err
}

// Annotations of flags: who has set one, and which words it takes.
const (
	fromVariable = "slidegate_from_variable"
	fromFile     = "slidegate_from_file"
	words        = "slidegate_words"
)

func annotate(f *pflag.Flag, key string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = values
}

// TakesWords says that a flag takes one of some words.
func TakesWords(f *pflag.Flag, allowed []string) { annotate(f, words, allowed...) }

// Words returns the words that a flag takes, none if it takes other texts too.
func Words(f *pflag.Flag) []string { return f.Annotations[words] }

// Mark says that a flag was set by a file, and in which line.
func Mark(f *pflag.Flag, file string, line int) { annotate(f, fromFile, file, strconv.Itoa(line)) }

// SetBy returns the file that has set a flag, and the line; ok is false if none has.
func SetBy(f *pflag.Flag) (file string, line int, ok bool) {
	where := f.Annotations[fromFile]
	if len(where) != 2 {
		return "", 0, false
	}
	line, _ = strconv.Atoi(where[1])
	return where[0], line, true
}

// IsOnCommandLine tells whether a flag was given on the command line.
func IsOnCommandLine(f *pflag.Flag) bool {
	return f.Changed && f.Annotations[fromVariable] == nil && f.Annotations[fromFile] == nil
}

// RefuseFlags returns an error if one of the flags is on the command line, where it would do nothing;
// why says so. Variables may stand for several commands, so one that does nothing is no mistake.
func RefuseFlags(flags *pflag.FlagSet, why string, names ...string) error {
	for _, name := range names {
		if f := flags.Lookup(name); f != nil && IsOnCommandLine(f) {
			return Usagef("--%s: %s", name, why)
		}
	}
	return nil
}

func set(flags *pflag.FlagSet, f *pflag.Flag, value string) error {
	values := []string{value}
	if strings.HasPrefix(f.Value.Type(), "string") && f.Value.Type() != "string" {
		values = split(value) // a list, or a flag that may be repeated
	}
	for _, v := range values {
		if err := flags.Set(f.Name, v); err != nil {
			return badValue(Variable(f.Name), f, v)
		}
	}
	return nil
}

func split(value string) (parts []string) {
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// injected are the variables that Kubernetes sets for services whose name begins with slidegate.
var injected = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?$`)

// Unknown returns the names of the environment variables that begin as ours do and that no flag of
// any command has: likely a misspelling. Those that Kubernetes sets are not among them.
func Unknown(root *cobra.Command) (names []string) {
	known := map[string]bool{StorePassword: true, APIToken: true, AdminToken: true}
	for _, cmd := range root.Commands() {
		for _, one := range append(cmd.Commands(), cmd) {
			one.Flags().VisitAll(func(f *pflag.Flag) { known[Variable(f.Name)] = true })
		}
	}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, prefix) && !known[name] && !injected.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
