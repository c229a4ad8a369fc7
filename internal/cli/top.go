package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

// topOrders contains the orders that flag --sort accepts. They apply to replicas that are not being
// cleaned.
var topOrders = map[string]func(a, b *report.Partition) int{
	"garbage": func(a, b *report.Partition) int { return cmp.Compare(garbage(b), garbage(a)) },
	"dirty": func(a, b *report.Partition) int {
		return cmp.Compare(b.Compaction.DirtyBytes, a.Compaction.DirtyBytes)
	},
	"size": func(a, b *report.Partition) int { return cmp.Compare(b.SizeBytes, a.SizeBytes) },
}

func topCommand(f *flags) *cobra.Command {
	var account account
	watch, limit, order := false, 0, ""
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the passes of the cleaners, and the replicas with the most garbage",
		Long: `Show the replicas that are being cleaned, and after them those with the most garbage.

READ and WRITTEN are the bytes of the running pass, or of the last one. The exit code is 3 if the
last pass of a replica has failed, or if a broker has not answered.`,
		Args: usage.NoArgs,
	}
	account.add(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "repeat every 2 s until Ctrl-C")
	cmd.Flags().IntVar(&limit, "limit", 20, "`NUMBER` show at most this many replicas")
	cmd.Flags().StringVar(&order, "sort", "garbage", "`ORDER` sort by garbage, dirty or size")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if topOrders[order] == nil {
			return misused(cmd, "invalid argument %q for --sort: give garbage, dirty or size", order)
		}
		if limit < 1 {
			return misused(cmd, "invalid argument %d for --limit: give 1 or more", limit)
		}
		return f.run(func(ctx context.Context, s *session, _ []string) error {
			cluster, err := s.logCluster(ctx)
			if err != nil {
				return err
			}
			client, err := s.http(ctx, cluster, account)
			if err != nil {
				return err
			}
			return s.repeat(ctx, watch, func(out io.Writer) error {
				rows, missing, err := s.replicas(ctx, client, cluster, "")
				if err != nil {
					return err
				}
				rows = topRows(rows, order)
				err = s.printTop(out, rows[:min(limit, len(rows))], missing)
				s.printMissing(missing)
				if err == nil && (len(missing) > 0 || slices.ContainsFunc(rows, failedPass)) {
					return ErrDegraded
				}
				return err
			})
		})(cmd, args)
	}
	return cmd
}

func failedPass(p report.Partition) bool {
	return p.Compaction.Reason == v1alpha1.ReasonQuarantined
}

func garbage(p *report.Partition) int64 {
	if p.Compaction.ReclaimableBytes == nil {
		return -1
	}
	return *p.Compaction.ReclaimableBytes
}

// topRows returns the compacted replicas: first those that are being cleaned, then the others in
// the given order.
func topRows(rows []report.Partition, order string) []report.Partition {
	rows = slices.DeleteFunc(rows, func(p report.Partition) bool { return p.Compaction == nil })
	idle := func(p *report.Partition) int {
		if p.Compaction.RunningPass != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(idle(&a), idle(&b)), topOrders[order](&a, &b))
	})
	return rows
}

func (s *session) printTop(out io.Writer, rows []report.Partition, missing []silent) error {
	if s.json() {
		return printJSON(out, map[string]any{"partitions": rows, "missing": orEmpty(missing)})
	}
	all := newTable(
		"TOPIC PARTITION BROKER SIZE DIRTY GARBAGE PHASE PROGRESS LEFT READ WRITTEN REASON")
	for i := range rows {
		p, c := &rows[i], rows[i].Compaction
		freed, progress, left, read, written := "", "", "", "", ""
		if c.ReclaimableBytes != nil {
			freed = remote.Bytes(*c.ReclaimableBytes)
		}
		pass := c.LastPass
		if c.RunningPass != nil {
			pass, progress = c.RunningPass, percent(c.ProgressRatio)
			if c.EtaSeconds != nil {
				left = age(seconds(*c.EtaSeconds))
			}
		}
		if pass != nil {
			read = remote.Bytes(pass.ReadBytes + pass.SidecarReadBytes)
			written = remote.Bytes(pass.WrittenBytes + pass.SidecarWrittenBytes)
		}
		all.add(p.Topic, strconv.Itoa(int(p.Partition)), strconv.Itoa(int(p.Broker)),
			remote.Bytes(p.SizeBytes), percent(c.DirtyRatio), freed, c.Phase, progress, left, read,
			written, c.Reason)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "No replica of a compacted topic.")
		return err
	}
	return all.print(out, "")
}
