package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli"
	"heartwood.dev/heartwood/internal/cli/direct"
	"heartwood.dev/heartwood/internal/cli/help"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/version"
)

// exitFailed is the exit code of a failure.
const exitFailed = 1

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Restore the default after the first signal. So a second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	root := rootCommand()
	if cli.IsPlugin(os.Args[0]) {
		root = cli.Root()
	}
	code := execute(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes heartwood's command line in args and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	return execute(ctx, rootCommand(), args, out, errOut)
}

// execute executes a command line and returns the exit code. It prints the error, if any, to
// errOut. The error output of package cobra is disabled, because the error would be printed twice.
func execute(ctx context.Context, root *cobra.Command, args []string, out, errOut io.Writer) int {
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, cli.ErrDegraded):
		return cli.ExitDegraded // the output says what is degraded
	case errors.Is(err, errLost):
		return exitLost // the error output says what is lost
	}
	_, _ = fmt.Fprintln(errOut, err)
	if usage.Is(err) {
		return usage.Exit
	}
	return exitFailed
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "heartwood",
		Short: "A compacting log for Kubernetes that speaks the Kafka protocol",
		Long: `Heartwood is a compacting log for Kubernetes that speaks the Kafka protocol.

Run a cluster here:   heartwood dev -f config/samples
On Kubernetes:        helm install heartwood charts/heartwood && kubectl apply -f config/samples
Watch the cleaner:    heartwood topics
Open the console:     heartwood console --bootstrap 127.0.0.1:9092
Show partitions:      heartwood partitions
Show transactions:    heartwood transactions
Print a key's value:  heartwood get tickets KEY
Clean a topic now:    heartwood clean tickets --wait
Inspect a log:        heartwood log dump DIR
Size a topic:         heartwood plan --keys 1.6G --record-size 5k`,
		Version:       version.Version() + " (" + version.Commit() + ")",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(usage.Misused)
	help.Install(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(direct.Commands()...)
	root.AddCommand(devCommand(), devBrokerCommand(), consoleCommand(), brokerCommand(),
		operatorCommand(), logCommand(), planCommand(), convertCommand(), benchCommand())
	return root
}
