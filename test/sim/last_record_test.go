package sim

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// checkLastRecord fails if a leader's log ends with a batch without records. A consumer that waits
// for the record before the log end would then wait until another record is appended (cleaner
// invariant I29). After an accepted loss, the log can end where a pass has removed records.
func (o *oracle) checkLastRecord(t *partitionModel, l *liveBroker, state replica.State) {
	if !state.Leader || !t.settings.Compact || t.lossEpoch > 0 {
		return
	}
	end := state.Log.LogEnd()
	if end == state.Log.LogStart() {
		return
	}
	last, err := readLast(state.Log, end)
	switch {
	case errors.Is(err, logstore.ErrClosed):
	case err != nil:
		o.w.fail("%s: broker %d failed to read its last batch: %v", t.name, l.id, err)
	case last.Count() == 0 || last.NextOffset() != end:
		o.w.fail("%s: the last batch of broker %d is [%d, %d) with %d records; its log ends at %d",
			t.name, l.id, last.BaseOffset(), last.NextOffset(), last.Count(), end)
	}
}

// readLast returns the batch that contains the last offset before the log end.
func readLast(log *logstore.Log, end int64) (record.Batch, error) {
	slice, err := log.ReadReplica(end-1, 1, true)
	if err != nil {
		return nil, fmt.Errorf("read at %d: %w", end-1, err)
	}
	defer slice.Release()
	if slice.Length < record.HeaderBytes {
		return nil, fmt.Errorf("read at %d: no batch", end-1)
	}
	batch := make(record.Batch, slice.Length)
	_, err = slice.File.ReadAt(batch, slice.Position)
	return batch, err
}
