// Command kubectl-heartwood is the kubectl plugin alone. The binary heartwood under this name is
// the same plugin, but contains the broker, which runs on Linux and macOS only; this one also runs
// on Windows.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"heartwood.dev/heartwood/internal/cli"
	"heartwood.dev/heartwood/internal/cli/usage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// after the first signal: restore the default, so that a second signal exits at once
	context.AfterFunc(ctx, stop)
	err := cli.Root().ExecuteContext(ctx)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, cli.ErrDegraded):
		os.Exit(cli.ExitDegraded) // the output says what is degraded
	default:
		fmt.Fprintln(os.Stderr, err)
		if usage.Is(err) {
			os.Exit(usage.Exit)
		}
		os.Exit(1)
	}
}
