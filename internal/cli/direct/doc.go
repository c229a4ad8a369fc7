// Package direct contains the commands of heartwood that send requests to brokers' HTTP ports:
// topics, partitions, transactions, get, clean and scrub. Unlike the commands of kubectl heartwood,
// they need no API server.
package direct

import "github.com/spf13/cobra"

// Commands returns the commands that this package contains.
func Commands() []*cobra.Command {
	return []*cobra.Command{topicsCommand(), partitionsCommand(), transactionsCommand(), getCommand(),
		cleanCommand(), scrubCommand()}
}
