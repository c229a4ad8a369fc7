package direct

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

// heartwood get truncates the value that it prints to getValueBytesMax bytes, and each value in a
// history to getHistoryBytes.
const (
	getValueBytesMax = 32 << 20
	getHistoryBytes  = 4 << 10
)

// getFlags contains the flags of heartwood get.
type getFlags struct {
	Addresses
	remote.KeyQuery
	history, isBase64, asJSON bool
}

func getCommand() *cobra.Command {
	flags := &getFlags{}
	cmd := &cobra.Command{
		Use:   "get TOPIC KEY",
		Short: "Print the latest value of a key",
		Long: `Print the latest value of a key, and a line feed. On a terminal, control characters are
escaped.

The brokers find the record by the key sidecars of a compacted topic, without reading the topic. The
value is that of the latest committed record below the high watermark, as a consumer with
read_committed finds it. Segments without a sidecar are read, as far as a limit permits: the active
segment, and those of topics with very small records.

The exit code is 1 if the key has no value, because no record exists or the latest one is a
tombstone. With --history the command shows each record of the key that is still on disk, the newest
first: whether it is live, superseded, aborted, or a tombstone, and when the tombstone may go.

The key is searched in the partition that Kafka's default partitioner chooses for it, and if that
one has no record of it, in all partitions: clients that are based on librdkafka, such as kcat, hash
keys in another way. If several partitions have records of the key, give --all-partitions for the
one with the latest timestamp.

The command asks one broker over HTTP, and the leader of the partition at the same port on the host
that the response contains. On Kubernetes, run the command in a pod:
  kubectl exec demo-broker-0 -- heartwood get tickets 4711
On a secured LogCluster it needs the right to get logclusters/records.`,
		Example: `  heartwood get tickets 4711
  heartwood get tickets 4711 --history
  heartwood get tickets 4711 --json | jq -r '.partitions[].records[0].value | @base64d'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return usage.Misused(cmd, errors.New("give one TOPIC and one KEY"))
		},
		RunE: flags.run,
	}
	cmd.Flags().Int32Var(&flags.Partition, "partition", -1,
		"`NUMBER` search only this partition (default: by the hash of the key)")
	cmd.Flags().Lookup("partition").DefValue = "0" // hides the default -1 in the help text
	cmd.Flags().BoolVar(&flags.All, "all-partitions", false, "search all partitions")
	cmd.Flags().BoolVar(&flags.history, "history", false, "show every record of the key on disk")
	cmd.Flags().BoolVar(&flags.isBase64, "base64", false, "KEY is in base64")
	flags.Add(cmd)
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object")
	return cmd
}

func (f *getFlags) run(cmd *cobra.Command, args []string) error {
	f.Topic, f.Key, f.ValueBytes = args[0], []byte(args[1]), getHistoryBytes
	if f.isBase64 {
		var err error
		if f.Key, err = base64.StdEncoding.DecodeString(args[1]); err != nil {
			return usage.Misused(cmd, fmt.Errorf("invalid argument %q for KEY: %w", args[1], err))
		}
	}
	switch given := cmd.Flags().Changed("partition"); {
	case given && f.Partition < 0:
		return usage.Misused(cmd, fmt.Errorf("invalid argument %d for --partition: give 0 or more",
			f.Partition))
	case given && f.All:
		return usage.Misused(cmd, errors.New("give either --partition or --all-partitions"))
	}
	if !f.history {
		f.Latest, f.ValueBytes = true, getValueBytesMax
	}
	client, err := f.Client(cmd)
	if err != nil {
		return err
	}
	var found report.Keys
	var latest *report.KeyRecord
	var missing error
	if err := f.ask(func(names []string) (err error) {
		found, latest, missing, err = f.find(cmd.Context(), client, names)
		return err
	}); err != nil {
		return err
	}
	switch out := cmd.OutOrStdout(); {
	case f.asJSON:
		err = json.NewEncoder(out).Encode(found)
	case f.history:
		err = remote.PrintKeys(out, &found)
	case latest != nil && len(latest.Value) < latest.ValueBytes:
		return fmt.Errorf("print the value: it has %s, and at most %s are possible",
			remote.Bytes(int64(latest.ValueBytes)), remote.Bytes(getValueBytesMax))
	case latest != nil:
		value := latest.Value
		if terminal.Is(out) {
			value = printable(value)
		}
		_, err = out.Write(append(value, '\n'))
	}
	return errors.Join(err, missing)
}

// find returns the key's records, its latest record with a value, and the reason if there is none.
// If no partition was requested, find first searches the partition that Kafka's default partitioner
// chooses. If that partition has no record with the key, find searches all partitions.
func (f *getFlags) find(ctx context.Context, client *remote.Client,
	addresses []string) (found report.Keys,
	latest *report.KeyRecord, missing, err error) {
	if found, err = client.Keys(ctx, addresses, f.KeyQuery); err != nil {
		return found, nil, nil, err
	}
	latest, missing = remote.LatestValue(&found)
	var none *remote.NoValue
	if f.All || f.Partition >= 0 || !errors.As(missing, &none) || !none.NoRecord() {
		return found, latest, missing, nil
	}
	all := f.KeyQuery
	all.All = true
	if found, err = client.Keys(ctx, addresses, all); err != nil {
		return found, nil, nil, err
	}
	latest, missing = remote.LatestValue(&found)
	return found, latest, missing, nil
}

// printable escapes characters with which a value could control a terminal, in the syntax of Go
// strings: control characters except line feed and tab, bytes that are not UTF-8, and characters
// that are not printable, such as those that change the text direction.
func printable(value []byte) []byte {
	var out []byte
	for len(value) > 0 {
		r, n := utf8.DecodeRune(value)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, "\\x%02x", value[0])
		case r == '\n' || r == '\t' || strconv.IsPrint(r):
			out = append(out, value[:n]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		value = value[n:]
	}
	return out
}
