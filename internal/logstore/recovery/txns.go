package recovery

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
)

// errTxnIndexLost means that a transaction index is missing, or lacks some of its entries.
var errTxnIndexLost = errors.New("transaction index lost")

// lostTxnIndex reports whether a segment's transaction index is lost, or has lost entries. There
// are two signs. The index may have fewer entries than the checkpoints list, or it may have none
// although the clean shutdown's summary omits the segment (a segment.Summary exists for every
// segment without an index). Without the index, aborted records would be returned as committed.
//
// The checkpoints may be older than a pass of the cleaner, which removes entries. In this case the
// index is rebuilt needlessly.
func (r *recovery) lostTxnIndex(h *segmentlist.Handle) bool {
	if h.NextOffset() <= r.Saved.RecoveryPoint && h.AbortedCount() < r.Saved.Aborted.Of(h.Base()) {
		return true
	}
	return r.AllSummarized && h.AbortedCount() == 0 && h.SizeBytes() > 0 &&
		!slices.ContainsFunc(r.Closed.Segments,
			func(sum segment.Summary) bool { return sum.Base == h.Base() })
}

// rebuildTxnIndexes rebuilds transaction indexes that are lost, or that were found to be damaged
// when their segments were opened.
func (r *recovery) rebuildTxnIndexes() error {
	for i, h := range r.handles {
		damage := h.TxnIndexDamaged()
		if damage == nil && r.lostTxnIndex(h) {
			damage = errTxnIndexLost
		}
		if damage == nil {
			continue
		}
		r.Logger.Warn("rebuilding a transaction index from the log", "partition", r.ID,
			"segment", h.Base(), "cause", damage)
		_, ended, err := r.snapshots.StateAt(r.handles[:i+1], h.NextOffset(), h.Base())
		if err == nil {
			err = h.ResetAborted(snapshots.Aborted(ended))
		}
		if err != nil {
			return fmt.Errorf("rebuild the transaction index of segment %d: %w", h.Base(), err)
		}
	}
	return nil
}

// decided finds the ended transactions whose marker is at or above the high watermark. A truncation
// may still remove such a marker, so the last stable offset must stay below the transaction, as
// before the restart. Most starts find no such marker, and read only a few headers.
func (r *recovery) decided(highWatermark, end int64) (ended []producer.EndedTxn, err error) {
	found := false
	for _, h := range r.handles[segmentlist.Floor(r.handles, highWatermark):] {
		position, err := h.Position(highWatermark)
		if err == nil {
			err = h.EachHeader(position, func(header segment.Header) (bool, error) {
				found = found || header.Control()
				return !found, nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("search markers in segment %d: %w", h.Base(), err)
		}
	}
	if !found {
		return nil, nil
	}
	_, ended, err = r.snapshots.StateAt(r.handles, end, highWatermark)
	return ended, err
}
