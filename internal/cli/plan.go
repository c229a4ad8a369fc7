package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
)

// consent contains the flags that determine how a command asks for confirmation before it changes
// something.
type consent struct {
	yes, dryRun bool
	in          io.Reader
	terminal    bool
}

// errNotConfirmed means that the user did not confirm a plan.
var errNotConfirmed = errors.New("not confirmed: nothing was changed")

func (c *consent) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the plan, and change nothing")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		c.in = cmd.InOrStdin()
		c.terminal = terminal.Is(c.in)
	}
}

// plan describes what a command is about to do. It is also the JSON output.
type plan struct {
	Plan    []string `json:"plan"`
	Applied bool     `json:"applied"`
}

// confirm prints the plan. It returns false for a dry run, and an error if the user does not
// confirm the plan. Without a terminal, --yes is required.
func (c *consent) confirm(s *session, steps ...string) (bool, error) {
	if !s.json() || !c.yes && !c.dryRun {
		for _, step := range steps {
			if _, err := fmt.Fprintln(s.planOut(), "plan:", step); err != nil {
				return false, err
			}
		}
	}
	switch {
	case c.dryRun && s.json():
		return false, printJSON(s.out, plan{Plan: steps})
	case c.dryRun:
		return false, nil
	case c.yes:
		return true, nil
	case !c.terminal:
		return false, usage.New(errors.New("standard input is not a terminal: confirm the plan " +
			"with --yes"))
	}
	_, _ = fmt.Fprint(s.errOut, "Continue? [y/N] ")
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return false, errNotConfirmed
	}
	return true, nil
}

// done prints the result of a plan. A plan without steps has changed nothing.
func (c *consent) done(s *session, steps []string, result string) error {
	if s.json() {
		return printJSON(s.out, plan{Plan: steps, Applied: len(steps) > 0})
	}
	_, err := fmt.Fprintln(s.out, result)
	return err
}

// planOut returns the writer for plans: standard error if standard output is JSON.
func (s *session) planOut() io.Writer {
	if s.json() {
		return s.errOut
	}
	return s.out
}
