package clean

import (
	"cmp"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/keys"
)

// transactions are the aborted ones of which batches may be in the log: for each producer, ranges
// of offsets, ascending and apart. They take a few bytes each, however large they are.
type transactions map[int64][]offsets

// offsets is the range [from, to).
type offsets struct{ from, to int64 }

// covers tells whether a data batch belongs to an aborted transaction. By the producer's id alone:
// a marker may have a later epoch than the batches it ends (KIP-890).
func (t transactions) covers(b keys.Batch) bool {
	if !b.Transactional || b.Marker != keys.NoMarker || len(t) == 0 {
		return false
	}
	all := t[b.ProducerID]
	i, found := slices.BinarySearchFunc(all, b.BaseOffset, func(r offsets, o int64) int {
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

// endsAt tells whether a producer's transaction that ends with the marker at an offset is among
// them.
func (t transactions) endsAt(producer, marker int64) bool {
	_, found := slices.BinarySearchFunc(t[producer], marker,
		func(r offsets, o int64) int { return cmp.Compare(r.to, o) })
	return found
}

// findTransactions goes through the batches of all segments, from the log start (I21): it finds out
// which transactions were aborted, makes the bitmaps of the window's plans, and marks in them the
// markers that no batch of their transaction is below any more.
func (p *pass) findTransactions(w window) error {
	// producer -> first offset of its transaction, as far as batches are left of it
	open := map[int64]int64{}
	p.aborted = transactions{}
	for i, plan := range p.plans {
		plan.controls = 0
		var lonely []uint32 // ordinals of markers
		err := plan.batches(func(b keys.Batch) error {
			switch {
			case b.Marker == keys.MarkerAbort || b.Marker == keys.MarkerCommit:
				first, begun := open[b.ProducerID]
				delete(open, b.ProducerID)
				if !begun && b.Records > 0 { // I20: with not even an empty batch below it
					lonely = append(lonely, b.FirstOrdinal)
				}
				if begun && b.Marker == keys.MarkerAbort {
					p.aborted[b.ProducerID] = append(p.aborted[b.ProducerID],
						offsets{first, b.BaseOffset})
				}
				plan.controls += b.Records
			case b.Marker != keys.NoMarker:
				plan.controls += b.Records
			case b.Transactional:
				if _, begun := open[b.ProducerID]; !begun {
					open[b.ProducerID] = b.BaseOffset
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if w.from <= i && i < w.to && plan.keys != nil {
			plan.makeBitmaps(&p.memory)
			for _, ordinal := range lonely {
				plan.final.set(ordinal)
			}
		}
	}
	for _, a := range p.AbortedAcrossBound { // what is still open at the bound, and ended above it
		if first, begun := open[a.ProducerID]; begun {
			p.aborted[a.ProducerID] = append(p.aborted[a.ProducerID], offsets{first, p.Bound})
		}
	}
	p.waiting = p.waiting || len(p.aborted) > 0
	return p.findIgnored()
}

// findIgnored notes which records supersede nothing: those of aborted transactions, and those below
// the log start. A window finds the same as the one before it.
func (p *pass) findIgnored() error {
	for i, plan := range p.plans {
		plan.ignored = nil
		if len(p.aborted) == 0 && plan.segment.Base() >= p.LogStart {
			continue
		}
		err := plan.batches(func(b keys.Batch) error {
			if b.Records > 0 && b.Marker == keys.NoMarker &&
				(b.LastOffset < p.LogStart || p.aborted.covers(b)) {
				plan.ignore(b.FirstOrdinal, b.FirstOrdinal+uint32(b.Records))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("segment %d of %d: %w", i, len(p.plans), err)
		}
	}
	return nil
}

// batches calls visit for each batch of the segment, as its sidecar has them.
func (p *plan) batches(visit func(keys.Batch) error) error {
	if p.keys == nil {
		return nil
	}
	it := p.keys.Batches()
	for it.Next() {
		if err := visit(it.Batch()); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return p.sidecarFault(err)
	}
	return nil
}
