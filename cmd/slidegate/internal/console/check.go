package console

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/config"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/rules"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/serve"
)

func check() *cobra.Command {
	schema := false
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a file of rules, or what it limits",
		Long: `Check reads a file of rules as serve --config would, and starts nothing. A file that is right is
summed up, and the status is 0. Of one that is wrong everything is said, a line each with the
file and the line in it, and the status is 2.`,
		Example: `  slidegate check rules.yaml
  slidegate check --schema >rules.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if schema {
				return files(0)(cmd, args)
			}
			return files(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := cmd.OutOrStdout().Write(rules.Schema(serve.Settable()))
				return err
			}
			f, err := serve.CheckFile(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", f.Name, f.Summary())
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of such files, and read none")
	return cmd
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
