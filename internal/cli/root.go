package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/help"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/version"
)

// ExitDegraded is the exit code for ErrDegraded.
const ExitDegraded = 3

// ErrDegraded means that the command has reported a degraded state of a LogCluster.
var ErrDegraded = errors.New("degraded")

// misused returns usage.Misused with a formatted message.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return usage.Misused(cmd, fmt.Errorf(format, args...))
}

// IsPlugin reports whether the program's name is the name of the kubectl plugin.
func IsPlugin(program string) bool {
	switch strings.TrimSuffix(filepath.Base(program), ".exe") {
	case "kubectl-heartwood", "kubectl_heartwood":
		return true
	}
	return false
}

const rootHelp = `Show, clean, move and repair the LogClusters of a Kubernetes cluster.

The commands have the rights of your kubectl context, and no others. They reach brokers through the
API server, as kubectl port-forward does. What you may not read is left out, with a line that says
so. docs/operate/kubectl-heartwood.md lists the rights that each command needs.

If the namespace has several LogClusters, choose one with --cluster.

Exit codes: 0 success and healthy, 1 failure, 2 wrong usage, 3 something that status, brokers,
topics, top or why has shown is degraded.`

// Root returns the root command of kubectl heartwood.
func Root() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "heartwood",
		Short: "Show, clean, move and repair LogClusters",
		Long:  rootHelp,
		Example: `  kubectl heartwood status
  kubectl heartwood -n logs why tickets
  kubectl heartwood clean tickets --wait
  kubectl heartwood tail tickets -k --follow`,
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: "kubectl heartwood"},
		Version:       version.Version() + " (" + version.Commit() + ")",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return misused(cmd, "%w", err)
	})
	help.Install(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	f.add(root)
	root.AddCommand(statusCommand(f), topicsCommand(f), brokersCommand(f), whyCommand(f),
		cleanCommand(f), scrubCommand(f), topCommand(f), tailCommand(f), produceCommand(f),
		groupsCommand(f), userCommand(f), restartCommand(f), approveCommand(f),
		pauseCommand(f), resumeCommand(f),
		moveCommand(f), rebalanceCommand(f), drainCommand(f), cordonCommand(f), acceptLossCommand(f),
		retainedCommand(f),
		logsCommand(f), reportCommand(f), consoleCommand(f))
	return root
}

// oneOrNone checks that there is at most one argument.
func oneOrNone(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return misused(cmd, "give at most one %s", name)
		}
		return nil
	}
}

// exactArgs checks that there is one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return misused(cmd, "give %s", strings.Join(names, " and "))
	}
}
