package clean

import (
	"cmp"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// abortedTxns contains the aborted transactions that have batches in the log, as disjoint ascending
// offset ranges per producer. A transaction takes a few bytes of memory, however many records it
// has.
type abortedTxns map[int64][]offsetRange

// offsetRange is the range [from, to) of offsets.
type offsetRange struct{ from, to int64 }

// covers reports whether a data batch belongs to an aborted transaction. It compares only the
// producer id, because a marker may have a later epoch than the batches of its transaction
// (KIP-890).
func (t abortedTxns) covers(b keys.Batch) bool {
	if !b.Transactional || b.Marker != keys.NoMarker || len(t) == 0 {
		return false
	}
	all := t[b.ProducerID]
	i, found := slices.BinarySearchFunc(all, b.BaseOffset, func(r offsetRange, o int64) int {
		switch {
		case r.from > o:
			return 1
		case r.to <= o:
			return -1
		}
		return 0
	})
	return found && b.BaseOffset >= all[i].from
}

// endsAt reports whether a producer has an aborted transaction whose marker is at the given offset.
func (t abortedTxns) endsAt(producer, marker int64) bool {
	_, found := slices.BinarySearchFunc(t[producer], marker,
		func(r offsetRange, o int64) int { return cmp.Compare(r.to, o) })
	return found
}

// findTransactions reads the batch entries of all segments, from the log start (I21), and returns
// the aborted transactions. It counts each plan's control records, and calls visit for each plan
// with the ordinals of the plan's lone markers: markers whose transaction has no remaining batch in
// the log.
//
// acrossBound lists the aborted transactions that begin below the bound and whose marker is at or
// above the bound.
func findTransactions(plans []*plan, acrossBound []segment.AbortedTxn, bound int64,
	visit func(p *plan, loneMarkers []uint32)) (abortedTxns, error) {
	// open maps a producer to the first remaining offset of its open transaction.
	open := map[int64]int64{}
	aborted := abortedTxns{}
	for _, plan := range plans {
		plan.controlRecords = 0
		var loneMarkers []uint32
		err := plan.batches(func(b keys.Batch) error {
			switch {
			case b.Marker == keys.MarkerAbort || b.Marker == keys.MarkerCommit:
				first, isOpen := open[b.ProducerID]
				delete(open, b.ProducerID)
				// I20: not even an empty batch of the marker's transaction remains.
				if !isOpen && b.Records > 0 {
					loneMarkers = append(loneMarkers, b.FirstOrdinal)
				}
				if isOpen && b.Marker == keys.MarkerAbort {
					aborted[b.ProducerID] = append(aborted[b.ProducerID],
						offsetRange{first, b.BaseOffset})
				}
				plan.controlRecords += b.Records
			case b.Marker != keys.NoMarker:
				plan.controlRecords += b.Records
			case b.Transactional:
				if _, isOpen := open[b.ProducerID]; !isOpen {
					open[b.ProducerID] = b.BaseOffset
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		visit(plan, loneMarkers)
	}
	for _, a := range acrossBound {
		if first, isOpen := open[a.ProducerID]; isOpen {
			aborted[a.ProducerID] = append(aborted[a.ProducerID], offsetRange{first, bound})
		}
	}
	return aborted, nil
}

// findIgnored sets the ignored ranges of all plans: records of aborted transactions, and records
// below the log start. The result is the same for every window.
func findIgnored(plans []*plan, aborted abortedTxns, change deletion) error {
	for i, plan := range plans {
		plan.ignored, plan.deleted = nil, 0
		if len(aborted) == 0 && plan.segment.Base() >= change.logStart {
			continue
		}
		err := plan.batches(func(b keys.Batch) error {
			if b.Records == 0 || b.Marker != keys.NoMarker {
				return nil
			}
			deleted, err := change.records(plan, b)
			ignored := deleted
			if aborted.covers(b) {
				ignored = b.Records
			}
			if ignored > 0 {
				plan.ignore(b.FirstOrdinal, b.FirstOrdinal+uint32(ignored))
			}
			plan.deleted += int64(deleted)
			return err
		})
		if err != nil {
			return fmt.Errorf("segment %d of %d: %w", i, len(plans), err)
		}
	}
	return nil
}
