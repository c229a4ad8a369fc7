// Package usage contains the errors for incorrect command lines of heartwood and kubectl heartwood.
package usage

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit is the exit code for an Error.
const Exit = 2

// Error is an error in flags, arguments or manifests.
type Error struct{ cause error }

// New returns an Error.
func New(cause error) Error { return Error{cause} }

// Error implements error.
func (e Error) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.cause }

// Is reports whether err is or wraps an Error.
func Is(err error) bool { return errors.As(err, new(Error)) }

// Misused returns an Error with the text of err and a line that refers to the command's --help.
func Misused(cmd *cobra.Command, err error) error {
	return New(fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath()))
}

// NoArgs returns an error if there are arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Misused(cmd, fmt.Errorf("unknown command or argument %q", args[0]))
}
