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

	"heartwood.dev/heartwood/internal/cli/help"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/loglevel"
)

// someArgs requires at least one argument.
func someArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return usage.Misused(cmd, fmt.Errorf("give at least one PATH"))
}

// required returns an error that lists all missing flags. It replaces cobra's check of required
// flags, whose error would not result in exit code 2. A flag with an empty value counts as missing,
// for example --cluster=$NAME if NAME is not set.
func required(cmd *cobra.Command, names ...string) error {
	var missing []error
	for _, name := range names {
		if flag := cmd.Flag(name); flag.Value.String() == "" {
			missing = append(missing,
				fmt.Errorf("flag --%s is required: %s", name, help.Text(flag)))
		}
	}
	if len(missing) > 0 {
		return usage.Misused(cmd, errors.Join(missing...))
	}
	return nil
}

// addressFlag is a flag of the form HOST:PORT. Its value is checked when the flag is parsed, so an
// invalid value results in exit code 2. An error of the listener would result in exit code 1.
type addressFlag struct{ text *string }

// address returns an addressFlag that stores its value in *target. The argument value is the
// default and can be empty; address stores it in *target.
func address(target *string, value string) addressFlag {
	*target = value
	return addressFlag{target}
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

// logLevel is the value of flag --log-level.
type logLevel struct {
	slog.Level
	changing *loglevel.Level // set by current
}

func (l *logLevel) Type() string { return "LEVEL" }

func (l *logLevel) String() string { return strings.ToLower(l.Level.String()) }

func (l *logLevel) Set(text string) error {
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("invalid log level %q: give debug, info, warn or error", text)
	}
	return nil
}

// addLogLevel adds the flag --log-level with a default. The result contains the flag's value once
// cobra has parsed the flags, which it has done when RunE is called.
func addLogLevel(cmd *cobra.Command, value slog.Level) *logLevel {
	level := &logLevel{Level: value}
	cmd.Flags().Var(level, "log-level",
		"`LEVEL` log to standard error from this level on: debug, info, warn or error")
	return level
}

// current returns the process's log level. It starts with the flag's value and can change.
func (l *logLevel) current() *loglevel.Level {
	if l.changing == nil {
		l.changing = loglevel.New(l.Level)
	}
	return l.changing
}

// textLogger returns a logger that writes text.
func (l *logLevel) textLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: l.current()}))
}

// jsonLogger returns a logger that writes JSON.
func (l *logLevel) jsonLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l.current()}))
}
