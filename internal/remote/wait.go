package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
)

const (
	// waitInterval is how often brokers are polled for progress.
	waitInterval = 500 * time.Millisecond
	// silenceMax is how long a broker may fail to respond before its replicas count as failed.
	silenceMax = 30 * time.Second
)

// Wait waits until every replica in the request is done or has failed, and returns nil. It returns
// an error if ctx ends first. It calls printLine with one line for each step of each replica.
func (c *Client) Wait(ctx context.Context, cleaning *Cleaning, printLine func(line string)) error {
	return poll(ctx, "the cleaning of "+cleaning.Topic, cleaning.open,
		func(address string, timedOut bool) error {
			rows, err := c.rows(ctx, address, []string{cleaning.Topic})
			if ctx.Err() == nil {
				cleaning.update(address, rows, err, timedOut, printLine)
			}
			return err
		})
}

// open returns the addresses of the brokers whose replicas are not done.
func (c *Cleaning) open() map[string]bool {
	open := map[string]bool{}
	for _, r := range c.Replicas {
		if r.State == Asked {
			open[r.address] = true
		}
	}
	return open
}

// poll requests the progress from the brokers at the addresses that open returns, until open
// returns none. It sets timedOut if a request fails and the broker has not responded for
// silenceMax. It returns an error only if ctx ends first.
func poll(ctx context.Context, what string, open func() map[string]bool,
	ask func(address string, timedOut bool) error) error {
	ticker := time.NewTicker(waitInterval)
	defer ticker.Stop()
	silent := map[string]int{} // number of successive polls without a response, by address
	for {
		addresses := open()
		if len(addresses) == 0 {
			return nil
		}
		for address := range addresses {
			silent[address]++
			timedOut := time.Duration(silent[address])*waitInterval >= silenceMax
			if err := ask(address, timedOut); err == nil {
				silent[address] = 0
			}
			if ctx.Err() != nil {
				return fmt.Errorf("wait for %s, which continues: %w", what, ctx.Err())
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// errRequestLost is the error for a replica whose broker no longer knows the request.
var errRequestLost = errors.New("the broker has restarted and lost the request; send it again")

// update applies a broker's response to its replicas. If err is set, there was no response, and the
// replicas fail only if timedOut is set.
func (c *Cleaning) update(address string, rows report.Partitions, err error, timedOut bool,
	printLine func(string)) {
	for _, r := range c.Replicas {
		if r.State != Asked || r.address != address {
			continue
		}
		row := find(rows, r)
		switch {
		case err != nil && timedOut:
			r.fail(err)
		case err != nil:
			continue
		case row == nil || row.CleanNowAsked < r.ticket:
			r.fail(errRequestLost)
		default:
			r.update(row)
		}
		if step, more := r.describe(row); step != r.printed {
			r.printed = step
			printLine(r.name(c.Topic) + ": " + step + more)
		}
	}
}

func find(rows report.Partitions, r *Replica) *report.Compaction {
	for _, row := range rows.Partitions {
		if row.Broker == r.Broker && row.Partition == r.Partition {
			return row.Compaction
		}
	}
	return nil
}

func (r *Replica) fail(err error) { r.State, r.Error = Failed, err.Error() }

// update sets the replica's state from its broker's report.
func (r *Replica) update(row *report.Compaction) {
	if row.CleanNowServed < r.ticket {
		return
	}
	r.State, r.Pass = Done, row.LastPass
	if r.Pass != nil && r.Pass.Result == report.ResultFailed {
		r.fail(errors.New(r.Pass.Error))
		return
	}
	if known, _ := summary.Explain(row.Reason); known.Kept != "" {
		r.Reason = row.Reason
	}
}

// describe returns the replica's current step, and details for the same line. A step is printed
// only once, even if its details change.
func (r *Replica) describe(row *report.Compaction) (step, more string) {
	switch {
	case r.State == Failed:
		return "failed: " + r.Error, ""
	case r.State == Done && (r.Pass == nil || r.Pass.Result == report.ResultNothingToDo):
		return "done: there was nothing to reclaim", kept(r.Reason)
	case r.State == Done:
		return fmt.Sprintf("done in %s: %s and %d records reclaimed; %s read, %s written",
			seconds(r.Pass),
			Bytes(r.Pass.ReclaimedBytes), r.Pass.RemovedRecords,
			Bytes(r.Pass.ReadBytes+r.Pass.SidecarReadBytes),
			Bytes(r.Pass.WrittenBytes+r.Pass.SidecarWrittenBytes)), kept(r.Reason)
	case row.RunningPass == nil:
		return "waiting for a worker slot", ""
	}
	step = fmt.Sprintf("%s, %d %% done", row.Phase, int(row.ProgressRatio*10)*10)
	if row.EtaSeconds != nil && *row.EtaSeconds >= 60 {
		more = fmt.Sprintf(", about %d min left", int(*row.EtaSeconds/60+0.5))
	}
	return step, more
}

// kept returns a text for the dirty records that the pass did not clean.
func kept(reason string) string {
	if known, _ := summary.Explain(reason); known.Kept != "" {
		return " (" + known.Kept + " were kept)"
	}
	return ""
}

// seconds formats a pass's duration.
func seconds(pass *report.Pass) string {
	if pass.Ended == nil {
		return "no time"
	}
	return fmt.Sprintf("%.1f s", *pass.Ended-pass.Began)
}

// Bytes formats a size with three significant digits and a binary unit.
func Bytes(n int64) string {
	value, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for value >= 1000 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", value, units[unit])
}
