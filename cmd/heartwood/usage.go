package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// usageError marks what the user mends by changing flags, arguments or manifests: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// misused says what is wrong with a command line and where its help is. The usageError it returns
// wraps err.
func misused(cmd *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath())}
}

// noArgs refuses arguments, someArgs wants at least one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return misused(cmd, fmt.Errorf("unknown command or argument %q", args[0]))
}

func someArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return misused(cmd, fmt.Errorf("give at least one PATH"))
}

// required refuses to go on without the flags named, and tells all that are missing. Cobra's own
// check would not end with exit code 2. One that is given but empty is missing, too:
// --cluster=$NAME of a variable that is not set.
func required(cmd *cobra.Command, names ...string) error {
	var missing []error
	for _, name := range names {
		if flag := cmd.Flag(name); flag.Value.String() == "" {
			missing = append(missing,
				fmt.Errorf("flag --%s is required: %s", name,
					strings.ReplaceAll(flag.Usage, "`", "")))
		}
	}
	if len(missing) > 0 {
		return misused(cmd, errors.Join(missing...))
	}
	return nil
}

// addressFlag is a flag that takes HOST:PORT. A wrong one is refused here, with exit code 2, not
// later by a listener.
type addressFlag struct{ text *string }

// address is such a flag for the variable that to points at, which it sets to the default (not
// checked, "" for none).
func address(to *string, standard string) addressFlag {
	*to = standard
	return addressFlag{to}
}

func (a addressFlag) Type() string   { return "HOST:PORT" }
func (a addressFlag) String() string { return *a.text }

func (a addressFlag) Set(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("want HOST:PORT, such as 127.0.0.1:9092")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("want a port from 0 to 65535")
	}
	*a.text = text
	return nil
}

// logLevel is the flag --log-level.
type logLevel struct{ slog.Level }

func (l *logLevel) Type() string { return "LEVEL" }

// as help names the levels
func (l *logLevel) String() string { return strings.ToLower(l.Level.String()) }

func (l *logLevel) Set(text string) error {
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%q is no log level: give debug, info, warn or error", text)
	}
	return nil
}

// addLogLevel adds the flag; its value is what the command line says only once that was parsed, so
// not before RunE.
func addLogLevel(cmd *cobra.Command, standard slog.Level) *logLevel {
	level := &logLevel{standard}
	cmd.Flags().Var(level, "log-level",
		"how much is logged to standard error: debug, info, warn or error")
	return level
}

// forPeople logs as text, forPods as JSON.
func (l *logLevel) forPeople(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: l.Level}))
}

func (l *logLevel) forPods(out io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l.Level}))
}
