package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	// waitInterval is how often brokers are asked how far they are.
	waitInterval = 500 * time.Millisecond
	// silenceMax is how long a broker may give no answer before its replicas count as failed.
	silenceMax = 30 * time.Second
)

// Wait returns when each replica that was asked for is done or has failed, or with ctx's error.
// tell is given a line whenever there is something new.
func (c *Client) Wait(ctx context.Context, cleaning *Cleaning, tell func(line string)) error {
	ticker := time.NewTicker(waitInterval)
	defer ticker.Stop()
	silent := map[string]int{} // by address: looks without an answer
	for {
		open := map[string]bool{}
		for _, r := range cleaning.Replicas {
			if r.State == Asked {
				open[r.address] = true
			}
		}
		if len(open) == 0 {
			return nil
		}
		for address := range open {
			rows, err := c.partitions(ctx, address, cleaning.Topic)
			if ctx.Err() != nil {
				return fmt.Errorf("wait for %s to be cleaned, which goes on: %w", cleaning.Topic,
					ctx.Err())
			}
			silent[address]++
			if err == nil {
				silent[address] = 0
			}
			cleaning.look(address, rows, err,
				time.Duration(silent[address])*waitInterval >= silenceMax, tell)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// errForgotten is why a replica counts as failed whose broker knows nothing of the request.
var errForgotten = errors.New("the broker was restarted and has forgotten the request; ask again")

// look takes in one broker's answer, or that there was none.
func (c *Cleaning) look(address string, rows report.Partitions, err error, givenUp bool,
	tell func(string)) {
	for _, r := range c.Replicas {
		if r.State != Asked || r.address != address {
			continue
		}
		row := find(rows, r)
		switch {
		case err != nil && givenUp:
			r.fail(err)
		case err != nil:
			continue
		case row == nil || row.CleanNowAsked < r.ticket:
			r.fail(errForgotten)
		default:
			r.look(row)
		}
		if step, more := r.describe(row); step != r.seen {
			r.seen = step
			tell(r.name(c.Topic) + ": " + step + more)
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

// look takes in how far the replica is.
func (r *Replica) look(row *report.Compaction) {
	if row.CleanNowServed < r.ticket {
		return
	}
	r.State, r.Pass = Done, row.LastPass
	if r.Pass != nil && r.Pass.Result == report.ResultFailed {
		r.fail(errors.New(r.Pass.Error))
		return
	}
	switch row.Reason {
	case v1alpha1.ReasonMinLagNotReached, v1alpha1.ReasonBlockedByOpenTransaction:
		r.Reason = row.Reason
	}
}

// describe says how far the replica is, in steps that are worth a line, and what more there is to
// say in it.
func (r *Replica) describe(row *report.Compaction) (step, more string) {
	switch {
	case r.State == Failed:
		return "failed: " + r.Error, ""
	case r.State == Done && (r.Pass == nil || r.Pass.Result == report.ResultNothingToDo):
		return "done: there was nothing to reclaim", left(r.Reason)
	case r.State == Done:
		return fmt.Sprintf("done in %s: %s and %d records reclaimed; %s read, %s written",
			seconds(r.Pass),
			Bytes(r.Pass.ReclaimedBytes), r.Pass.RemovedRecords,
			Bytes(r.Pass.ReadBytes+r.Pass.SidecarReadBytes),
			Bytes(r.Pass.WrittenBytes+r.Pass.SidecarWrittenBytes)), left(r.Reason)
	case row.RunningPass == nil:
		return "waits for a worker", ""
	}
	step = fmt.Sprintf("%s, %d %% done", row.Phase, int(row.ProgressRatio*10)*10)
	if row.EtaSeconds != nil && *row.EtaSeconds >= 60 {
		more = fmt.Sprintf(", about %d min left", int(*row.EtaSeconds/60+0.5))
	}
	return step, more
}

// left says why something is left.
func left(reason string) string {
	switch reason {
	case v1alpha1.ReasonMinLagNotReached:
		return " (what is younger than compaction.minLag stays)"
	case v1alpha1.ReasonBlockedByOpenTransaction:
		return " (what lies above an open transaction stays)"
	}
	return ""
}

// seconds is how long a pass took.
func seconds(pass *report.Pass) string {
	if pass.Ended == nil {
		return "no time"
	}
	return fmt.Sprintf("%.1f s", *pass.Ended-pass.Began)
}

// Bytes writes a size for people: 3 digits and a binary unit.
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
