package clean

import "heartwood.dev/heartwood/internal/logstore/keys"

// emptiedTxns finds the transactions whose last batch a pass has removed. The markers of these
// transactions have become removable (I20). So the pass can start the markers' retention and plan
// the pass that removes them. Otherwise only a later pass would find the markers, and a log without
// further writes may never need such a pass.
//
// emptiedTxns reads the batch entries of the log once, in ascending order, each segment after the
// rewrites in the segment's window. When it reads a marker, it has already read all batches of the
// marker's transaction.
type emptiedTxns struct {
	policy batchPolicy
	next   int // index of the next plan to read
	// open contains the producers whose current transaction still has a batch in the log.
	open map[int64]bool
}

// advance reads the batch entries that were not read yet from all plans below the end of a window.
// It sets the emptied markers of the window's plans, and calls found for each marker's batch.
func (e *emptiedTxns) advance(plans []*plan, w window, found func(keys.Batch)) error {
	for ; e.next < w.to; e.next++ {
		plan, inWindow := plans[e.next], w.contains(e.next)
		var markers []uint32
		err := plan.batches(func(b keys.Batch) error {
			if e.ends(b) && inWindow && !plan.latest.has(b.FirstOrdinal) {
				markers = append(markers, b.FirstOrdinal)
				found(b)
			} else if b.Transactional && b.Marker == keys.NoMarker && e.remains(plan, b) {
				e.open[b.ProducerID] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		plan.emptied = newRemovableSet(0, func(yield func(uint32) bool) {
			for _, ordinal := range markers {
				if !yield(ordinal) {
					return
				}
			}
		})
	}
	return nil
}

// ends reports whether a batch is the marker of a transaction that has no remaining batch.
func (e *emptiedTxns) ends(b keys.Batch) bool {
	if b.Marker != keys.MarkerAbort && b.Marker != keys.MarkerCommit {
		return false
	}
	open := e.open[b.ProducerID]
	delete(e.open, b.ProducerID)
	return !open && b.Records > 0
}

// remains reports whether a batch is still in the log after the rewrites in its window.
func (e *emptiedTxns) remains(plan *plan, b keys.Batch) bool {
	if !plan.rewritten {
		return true
	}
	action, _ := e.policy.action(plan, b)
	return action != dropBatch
}
