// Package usage contains the errors of commands that are called in a wrong way, for heartwood and
// kubectl heartwood.
package usage

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit is the exit code of an Error.
const Exit = 2

// Error is an error in flags, arguments or manifests.
type Error struct{ cause error }

// New returns an Error.
func New(cause error) Error { return Error{cause} }

// Error implements error.
func (e Error) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.cause }

// Is reports whether an error is an Error.
func Is(err error) bool { return errors.As(err, new(Error)) }

// Misused returns an Error: err, followed by a line that refers to the command's --help.
func Misused(cmd *cobra.Command, err error) error {
	return New(fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath()))
}

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Misused(cmd, fmt.Errorf("unknown command or argument %q", args[0]))
}
