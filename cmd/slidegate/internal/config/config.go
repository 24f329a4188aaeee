// Package config reads what the commands are told: flags, their environment variables, and limits.
package config

import (
	"fmt"
	"os"
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

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// LimitsUsage is the help of the flag that takes limits.
const LimitsUsage = "a limit, [name=]QUOTA/WINDOW[,counter][,resolution=DUR], such as 100/1m or burst=10/s; repeat the flag for up to 8"

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

const prefix = "SLIDEGATE_"

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

// Environment sets the flags that the command line did not from their variables. A flag that may be
// repeated takes several values between ';' or line ends, since a comma belongs to a limit.
func Environment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(Variable(f.Name))
		if err != nil || !ok || f.Changed || internal(f) {
			return
		}
		if list, isList := f.Value.(pflag.SliceValue); isList && f.Value.Type() == "stringArray" {
			err = list.Replace(split(value))
			f.Changed = true
		} else {
			err = cmd.Flags().Set(f.Name, value)
		}
		if err != nil {
			err = Usagef("%s: %w", Variable(f.Name), err)
		}
	})
	return err
}

func split(value string) (parts []string) {
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
