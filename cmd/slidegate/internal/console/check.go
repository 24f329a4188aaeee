package console

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
)

// A checking is what check is told.
type checking struct{ schema, rls, merge bool }

func check() *cobra.Command {
	var c checking
	cmd := &cobra.Command{
		Use:   "check FILE | --rls DIR",
		Short: "Say what is wrong with rules, or what they limit",
		Long: `Check reads a file of rules as serve --config would, or with --rls a directory of rule files of
envoyproxy/ratelimit as serve --rls-config would, and starts nothing. What is right is summed up,
and the status is 0. Of what is wrong everything is said, a line each with the file and the line
in it, and the status is 2.`,
		Example: `  slidegate check rules.yaml
  slidegate check --rls /etc/slidegate/rls
  slidegate check --schema >rules.schema.json`,
		Args: c.args,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.schema, "schema", false, "print the JSON Schema of files of rules, and read none")
	f.BoolVar(&c.rls, "rls", false, "read the rule files of a directory, which are those of envoyproxy/ratelimit")
	f.BoolVar(&c.merge, "rls-merge-domains", false, "let several of these files speak of one domain")
	return cmd
}

func (c *checking) args(cmd *cobra.Command, args []string) error {
	switch {
	case c.schema && c.rls:
		return config.Usagef("--schema with --rls: it is of files of rules: give one of the two")
	case c.schema:
		return files(0)(cmd, args)
	}
	return files(1)(cmd, args)
}

func (c *checking) run(cmd *cobra.Command, args []string) error {
	if !c.rls {
		if err := config.RefuseFlags(cmd.Flags(), "it is about --rls, which is not given", "rls-merge-domains"); err != nil {
			return err
		}
	}
	if c.schema {
		_, err := cmd.OutOrStdout().Write(rules.Schema(serve.Settable()))
		return err
	}
	summary, err := c.read(args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[0], summary)
	return err
}

// read returns what is limited. All that is wrong is the error.
func (c *checking) read(path string) (summary string, err error) {
	if c.rls {
		set, err := serve.CheckRLS(path, c.merge)
		if err != nil {
			return "", err
		}
		return set.Summary(), nil
	}
	f, err := serve.CheckFile(path)
	if err != nil {
		return "", err
	}
	return f.Summary(), nil
}

// statusDifferent is what diff ends with where there is a difference, as diff of Unix does.
const statusDifferent = 1

func diff() *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what a change of a file of rules means",
		Long: `Diff says in words what it means to go from one file of rules to another, a line for each thing.
The status is 0 where that is nothing, 1 where it is something, and 2 where a file is wrong.`,
		Example: "  slidegate diff rules.yaml rules.new.yaml",
		Args:    files(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var both [2]*rules.File
			var problems rules.Problems
			for i, name := range args {
				var wrong rules.Problems
				f, err := rules.ReadFile(name, serve.Settable())
				if wrong, _ = err.(rules.Problems); err != nil && wrong == nil {
					return err
				}
				both[i], problems = f, append(problems, wrong...)
			}
			if len(problems) > 0 {
				return problems
			}
			changes := rules.Diff(both[0], both[1])
			for _, c := range changes {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), c); err != nil {
					return err
				}
			}
			if len(changes) > 0 {
				return &config.ExitError{Status: statusDifferent}
			}
			return nil
		},
	}
}

// files is for commands that take so many.
func files(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return config.Usagef("%s: %d files: allowed is %d: %s", cmd.Name(), len(args), n, cmd.UseLine())
		}
		return nil
	}
}
