package repair

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// markers are the transaction markers of a segment, by offset.
type markers map[int64]record.Control

// ownMarkers returns the markers of the damaged segment, up to the first batch that cannot be read,
// except those that are damaged.
func (r Records) ownMarkers(ctx context.Context) markers {
	own := markers{}
	_ = eachControl(ctx, r.Handle.Segment, r.Pace, func(b record.Batch) {
		if marker, ok, err := b.Marker(); ok && err == nil && b.CheckCRC() == nil {
			own[b.LastOffset()] = marker
		}
	})
	return own
}

// headerBytes is the size of the read that a header causes on the disk.
const headerBytes = 4096

// eachControl calls each with the control batches of a segment.
func eachControl(ctx context.Context, s *segment.Segment, pace Pace,
	each func(record.Batch)) error {
	for position := int64(0); position < s.SizeBytes(); {
		began := time.Now()
		header, err := s.HeaderAt(position)
		if err == nil {
			err = pace.after(ctx, min(header.SizeBytes, headerBytes), began)
		}
		if err != nil {
			return err
		}
		if header.Control() {
			content := make([]byte, header.SizeBytes)
			if _, err := s.File().ReadAt(content, position); err != nil {
				return err
			}
			each(content)
		}
		position += int64(header.SizeBytes)
	}
	return nil
}

// check fails with ErrSource if a batch of the source is another marker than the segment's own.
func (own markers) check(got record.Batch) error {
	want, known := own[got.LastOffset()]
	if !known {
		return nil
	}
	marker, ok, err := got.Marker()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSource, err)
	case !got.Control() || ok && marker != want:
		return differs(got, fmt.Sprintf("%+v, want %+v", marker, want))
	}
	return nil // equal, or the source has removed the record of the marker
}

// differs returns the error for a batch of the source that is not the marker of this log.
func differs(got record.Batch, how string) error {
	return fmt.Errorf("%w: its control batch at offset %d differs: %s", ErrSource, got.BaseOffset(),
		how)
}

// kinds contains the kind of each marker in a key sidecar.
var kinds = map[record.ControlType]keys.Marker{
	record.ControlAbort: keys.MarkerAbort, record.ControlCommit: keys.MarkerCommit,
}

// appendMarker writes a control batch in place of the damaged one want. The sidecar has the kind of
// the marker, and the checksum of the whole batch, which also covers the epoch of the coordinator.
// Only the delete horizon may differ between replicas. So the marker of the source, with the own
// horizon, must have the own checksum, and is then the lost batch itself.
func (m *mender) appendMarker(out *segment.Segment, want keys.Batch, got record.Batch) error {
	if got.Count() == 0 {
		return out.Append(got) // the source has removed the record
	}
	identity := record.IdentityOf(got)
	identity.DeleteHorizonMs = want.HorizonMs
	m.builder.SetCodec(compress.None, compress.LevelDefault)
	m.builder.Reset(identity)
	if want.Records > 0 {
		marker, ok, err := got.Marker()
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrSource, err)
		case ok && kinds[marker.Type] != want.Marker || !ok && want.Marker != keys.MarkerOther:
			return differs(got, "the marker is a "+marker.Type.String())
		}
		if err := got.Records(markerBytesMax, func(rec *record.Record) error {
			m.builder.Add(rec)
			return nil
		}); err != nil {
			return fmt.Errorf("%w: %w", ErrSource, err)
		}
	}
	own, err := m.builder.Build(nil)
	if err != nil {
		return err
	}
	if b := record.Batch(own); want.Records > 0 && b.CRC() != want.CRC {
		return differs(got, "its coordinator epoch or timestamp is another one")
	}
	return out.Append(own)
}

// markerBytesMax limits the size of the records in a control batch.
const markerBytesMax = 1 << 10

// copyAborted adds the aborted transactions to the new segment whose markers it contains. If the
// source has removed a marker, no replica has records of the transaction: both wait for the
// replicated cleaning progress (docs/internals/replication-compacted.md). It fails with ErrSource
// if such a marker is not an abort.
func (r Records) copyAborted(ctx context.Context, out *segment.Segment) error {
	if r.Handle.AbortedCount() == 0 {
		return nil
	}
	contained, other := map[int64]bool{}, markers{}
	if err := eachControl(ctx, out, nil, func(b record.Batch) {
		contained[b.LastOffset()] = true
		if marker, ok, err := b.Marker(); ok && err == nil && marker.Type != record.ControlAbort {
			other[b.LastOffset()] = marker
		}
	}); err != nil {
		return err
	}
	var failed error
	_, err := r.Handle.Aborted(out.Base(), math.MaxInt64, func(a segment.AbortedTxn) {
		switch marker, differs := other[a.LastOffset]; {
		case failed != nil || !contained[a.LastOffset]:
		case differs:
			failed = fmt.Errorf("%w: its control batch at offset %d is a %v, want an abort", ErrSource,
				a.LastOffset, marker.Type)
		default:
			failed = out.AddAborted(a)
		}
	})
	return errors.Join(err, failed)
}
