// Command kubectl-heartwood is the kubectl plugin as a separate binary. The binary heartwood is the
// same plugin when it is started under this name. But that binary also contains the broker, which
// runs only on Linux and macOS; this one also runs on Windows.
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
	// Restore the default after the first signal. So a second signal ends the process at once.
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
