package clean

import "heartwood.dev/heartwood/internal/logstore/keys"

// emptiedTxns finds the transactions whose last batch a pass has removed. The markers of these
// transactions have become removable (I20). So the pass can start their retention and plan the pass
// that removes them. Otherwise only a later pass would find them, and a log that is no longer
// written to may never need such a pass.
//
// It reads the batch entries of the log once, in ascending order, each segment after the rewrites
// of its window. When it reads a marker, all batches of the transaction below it were read.
type emptiedTxns struct {
	policy batchPolicy
	next   int // index of the next plan to read
	// open are the producers with a transaction that still has a batch in the log.
	open map[int64]bool
}

// advance reads the batch entries of all plans below the end of a window that were not read yet. It
// sets the emptied markers of the plans of the window, and calls found for each of their batches.
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

// ends reports whether a batch is the marker of a transaction that has no batch left.
func (e *emptiedTxns) ends(b keys.Batch) bool {
	if b.Marker != keys.MarkerAbort && b.Marker != keys.MarkerCommit {
		return false
	}
	open := e.open[b.ProducerID]
	delete(e.open, b.ProducerID)
	return !open && b.Records > 0
}

// remains reports whether a batch is in the log after the rewrites of its window.
func (e *emptiedTxns) remains(plan *plan, b keys.Batch) bool {
	if !plan.rewritten {
		return true
	}
	action, _ := e.policy.action(plan, b)
	return action != dropBatch
}
