package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/kafka"
	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
)

func tailCommand(f *flags) *cobra.Command {
	var connection kafkaFlags
	tail, keys, meta := kafka.Tail{}, false, false
	cmd := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Print the last records of a topic, and with --follow the later ones",
		Long: `Print the values of the last records of a topic, one per line.

--last counts offsets: a compacted partition has fewer records, because the cleaner has removed
superseded ones. A value that is not UTF-8 is printed in base64. A tombstone is printed as an empty
line, or with -o json as null. With -o json each record is one line with its key, offset, time and
headers.

No group commits an offset. On listeners with authentication, give --user.`,
		Example: `  kubectl heartwood tail tickets -k --last 5
  kubectl heartwood tail tickets --follow -o json
  kubectl heartwood tail orders --user app --partition 0`,
		Args: exactArgs("one TOPIC"),
	}
	connection.add(cmd)
	cmd.Flags().Int32SliceVar(&tail.Partitions, "partition", nil,
		"`NUMBER` print only this partition; repeatable")
	cmd.Flags().Lookup("partition").DefValue = "" // hides the default [] in the help text
	cmd.Flags().Int64Var(&tail.Last, "last", 10,
		"`NUMBER` begin this many offsets before each partition's end")
	cmd.Flags().BoolVar(&tail.FromStart, "from-start", false, "print all records")
	cmd.Flags().BoolVarP(&tail.Follow, "follow", "f", false, "print further records until Ctrl-C")
	cmd.Flags().BoolVar(&tail.Committed, "committed", false,
		"omit records of open and aborted transactions (isolation.level read_committed)")
	cmd.Flags().BoolVarP(&keys, "keys", "k", false, "print the key and a tab before each value")
	cmd.Flags().BoolVar(&meta, "offsets", false, "print partition and offset before each record")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		if tail.Last < 0 {
			return usage.New(errors.New("invalid argument for --last: give 0 or more"))
		}
		name, cluster, err := s.kafkaTopic(ctx, args[0])
		if err != nil {
			return err
		}
		options, err := connection.connect(ctx, s, cluster)
		if err != nil {
			return err
		}
		tail.Topic, tail.Partitions = name, sortedPartitions(tail.Partitions)
		lines := json.NewEncoder(s.out)
		return kafka.Read(ctx, options, tail, func(r kafka.Record) error {
			if s.json() {
				return lines.Encode(r)
			}
			return printRecord(s.out, r, keys, meta)
		})
	})
	return cmd
}

// kafkaTopic returns a topic's name in Kafka, and its LogCluster.
func (s *session) kafkaTopic(ctx context.Context, name string) (string, *v1alpha1.LogCluster,
	error) {
	topic, cluster, err := s.topicAndCluster(ctx, name)
	if err != nil {
		return "", nil, err
	}
	return topic.KafkaName(), cluster, nil
}

// printRecord prints a record as one line. On a terminal, it removes control characters, because a
// record could otherwise change what the user sees.
func printRecord(out io.Writer, r kafka.Record, keys, meta bool) error {
	line := ""
	if meta {
		line = strconv.Itoa(int(r.Partition)) + "\t" + strconv.FormatInt(r.Offset, 10) + "\t"
	}
	if keys {
		line += readable(r.Key) + "\t"
	}
	if line += readable(r.Value); terminal.Is(out) {
		line = printable(line)
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// readable returns a key or a value as text, or in base64 if it is not UTF-8.
func readable(text *kafka.Text) string {
	if text == nil {
		return ""
	}
	if !utf8.Valid(*text) {
		return base64.StdEncoding.EncodeToString(*text)
	}
	return string(*text)
}

func produceCommand(f *flags) *cobra.Command {
	var connection kafkaFlags
	produce := kafka.Produce{}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write the lines of standard input as records of a topic",
		Long: `Write each line of standard input as a record, with acks=all.

With --key-separator a line is a key, the separator, and a value; compacted topics need keys. With
--tombstones an empty value deletes the key. The command prints how many records were acknowledged,
and fails at the first one that was not.`,
		Example: `  printf 'T-1:printer on fire\nT-1:fire out\n' | kubectl heartwood produce tickets -K :
  printf 'T-1:\n' | kubectl heartwood produce tickets -K : --tombstones`,
		Args: exactArgs("one TOPIC"),
	}
	connection.add(cmd)
	cmd.Flags().StringVarP(&produce.Separator, "key-separator", "K", "",
		"`TEXT` separates the key from the value (default: records without keys)")
	cmd.Flags().BoolVar(&produce.Tombstones, "tombstones", false, "write null for an empty value")
	cmd.Flags().Int32Var(&produce.Partition, "partition", -1,
		"`NUMBER` write to this partition (default: by the hash of the key)")
	cmd.Flags().Lookup("partition").DefValue = "0" // hides the default -1 in the help text
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(func(ctx context.Context, s *session, args []string) error {
			name, cluster, err := s.kafkaTopic(ctx, args[0])
			if err != nil {
				return err
			}
			options, err := connection.connect(ctx, s, cluster)
			if err != nil {
				return err
			}
			produce.Topic = name
			written, err := kafka.Write(ctx, options, produce, cmd.InOrStdin())
			if s.json() {
				return errors.Join(printJSON(s.out, map[string]int{"acknowledged": written}), err)
			}
			_, printed := fmt.Fprintf(s.out, "%d records acknowledged\n", written)
			return errors.Join(err, printed)
		})(cmd, args)
	}
	return cmd
}
