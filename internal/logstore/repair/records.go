package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
)

// ErrUnknownContent is returned if it is unknown which records the damaged batches contained: the
// segment was cleaned, and has no valid key sidecar. Another replica may still have records that
// this one has removed together with their tombstones, so its records must not be copied alone.
var ErrUnknownContent = errors.New("the content of the damaged batches is unknown")

// Records replaces the data file of a segment at rest by one without its damaged batches, whose
// records another replica provides.
type Records struct {
	Segment
	Source Source
	// Cleaned is set if the segment is below the first dirty offset, so that passes have removed
	// records of it. Compacted is set if an unfinished pass may have removed some above it.
	Cleaned, Compacted bool
	// LogStart is the log start offset: damaged batches below it are dropped.
	LogStart int64
	// Swap replaces the segment by another one with the same base offset. It owns the replacement.
	Swap func(damaged, replacement []*segment.Segment) error
}

// Replace writes the new segment beside the old one and swaps the two. It replaces damaged batches
// as follows:
//
//   - If the segment has a valid key sidecar, the sidecar shows the offsets, the size and the
//     checksum of each batch. Replace keeps the batches that match, and reads the other ones from
//     the source. Replicas are cleaned independently, so the batch of the source may contain other
//     records. The new batch contains the records that both the sidecar and the source have. The
//     source has removed the others because newer records supersede them.
//   - Otherwise, if the segment is in the dirty section, Replace reads all its batches from the
//     source. Records that return are cleaned again. If the topic is compacted, a transactional
//     batch fails with ErrUnknownContent: if its transaction was aborted, this log may have removed
//     the index entry of the transaction.
//   - Otherwise Replace fails with ErrUnknownContent.
//
// So no deleted key and no aborted record returns. Replace fails with ErrSource if the source
// cannot provide the records, and with segmentlist.ErrChanged if the log no longer has the segment.
// After an error nothing is changed.
func (r Records) Replace(ctx context.Context) error {
	held, err := r.hold()
	if err != nil {
		return err
	}
	defer held.Release()
	if err := r.Handle.TxnIndexDamaged(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownContent, err)
	}
	old := r.Handle.Segment
	out, err := segment.Create(r.Files.FS, r.Files.Path, old.Base(), swap.CleanedSuffix, r.Config)
	if err != nil {
		return fmt.Errorf("create segment %d: %w", old.Base(), err)
	}
	if err := r.write(ctx, out); err != nil {
		return errors.Join(fmt.Errorf("replace the records of segment %d: %w", old.Base(), err),
			swap.Discard([]*segment.Segment{out}))
	}
	return r.Swap([]*segment.Segment{old}, []*segment.Segment{out})
}

// write writes and seals the new segment.
func (r Records) write(ctx context.Context, out *segment.Segment) error {
	from := &cursor{source: r.Source, pace: r.Pace}
	guide, err := r.guide(ctx)
	switch {
	case err == nil:
		err = errors.Join(r.mend(ctx, out, from, guide), guide.sidecar.Close())
	case errors.Is(err, ErrUnknownContent) && !r.Cleaned:
		err = r.copyAll(ctx, out, from)
	}
	if err == nil {
		err = r.copyAborted(ctx, out)
	}
	if err != nil {
		return err
	}
	return out.Seal()
}

// copyAll writes all batches of the segment's offsets that the source has.
func (r Records) copyAll(ctx context.Context, out *segment.Segment, from *cursor) error {
	end, own := r.Handle.NextOffset(), r.ownMarkers(ctx)
	for offset := max(out.Base(), r.LogStart); offset < end; {
		b, found, err := from.next(ctx, offset, end)
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case !found && r.Compacted:
			return missing(offset)
		case !found:
			return nil
		}
		if b.BaseOffset() < out.Base() {
			return fmt.Errorf("%w: its batch of offsets %d to %d begins below the segment",
				ErrSource, b.BaseOffset(), b.LastOffset())
		}
		if err := errors.Join(r.copyable(b, offset), own.check(b)); err != nil {
			return err
		}
		if err := out.Append(b); err != nil {
			return full(err)
		}
		offset = b.NextOffset()
	}
	return nil
}

// copyable reports why a batch of the source cannot be copied without a key sidecar. offset is the
// end of the batch before it.
func (r Records) copyable(b record.Batch, offset int64) error {
	switch {
	case !r.Compacted:
	case b.Transactional() && !b.Control():
		return fmt.Errorf("%w: the transaction of the batch at offset %d may have been aborted",
			ErrUnknownContent, b.BaseOffset())
	case b.BaseOffset() > offset:
		return missing(offset)
	}
	return nil
}

// missing returns the error for batches that the source has removed from an offset on. It may have
// omitted batches without records among them, which contain sequence numbers of producers.
func missing(offset int64) error {
	return fmt.Errorf("%w: the source has removed batches from offset %d on", ErrUnknownContent,
		offset)
}

// full adds ErrUnknownContent to the error of a segment that cannot contain the larger batches of
// the source.
func full(err error) error {
	if errors.Is(err, segment.ErrFull) {
		return fmt.Errorf("%w: %w", ErrUnknownContent, err)
	}
	return err
}

// guide is what a segment should contain, and which of its batches are damaged.
type guide struct {
	sidecar *keys.Reader
	damaged map[int64]bool // positions of the batches that do not match the sidecar
	// hashes contains the hash of each record with a key in the damaged batches, by ordinal.
	hashes map[uint32]keys.Hash
}

// damagedRecordsMax is the maximum number of records in damaged batches whose keys are compared.
// It limits the memory to about 40 MB.
const damagedRecordsMax = 1 << 20

// guide opens the key sidecar and compares all batches with it. It fails with ErrUnknownContent if
// there is no valid sidecar, or if not a single batch matches it: the sidecar may then belong to
// other data.
func (r Records) guide(ctx context.Context) (g guide, err error) {
	// The sidecar is not verified by checksums in the data file, which may be the damaged ones.
	sidecar, err := r.Sidecars.Open(r.Handle, false)
	if err != nil {
		return g, unusable(err)
	}
	g = guide{sidecar, map[int64]bool{}, map[uint32]keys.Hash{}}
	if err = r.compare(ctx, g); err != nil {
		return g, errors.Join(err, sidecar.Close())
	}
	return g, nil
}

// unusable adds ErrUnknownContent to the error of a sidecar that does not exist or is damaged.
// Other errors, as for a lack of file descriptors, are temporary.
func unusable(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sidecars.ErrNoKeys) || keys.Unusable(err) ||
		isDamage(err) {
		return fmt.Errorf("%w: %w", ErrUnknownContent, err)
	}
	return err
}

// isDamage reports whether an error shows that the content of a file is wrong or unreadable.
func isDamage(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO)
}

// compare adds to a guide the batches that do not match its sidecar, and the keys of their records.
func (r Records) compare(ctx context.Context, g guide) error {
	ordinals := map[uint32]bool{}
	matches, end := 0, r.Handle.Base()
	batches := g.sidecar.Batches()
	for batches.Next() {
		b := batches.Batch()
		end = b.LastOffset + 1
		switch _, err := r.own(ctx, b); {
		case err == nil:
			matches++
			continue
		case !isDamage(err):
			return err
		}
		g.damaged[b.Position] = true
		for i := range b.Records {
			ordinals[b.FirstOrdinal+uint32(i)] = true
		}
		if len(ordinals) > damagedRecordsMax {
			return fmt.Errorf("%w: more than %d records are damaged", ErrUnknownContent,
				damagedRecordsMax)
		}
	}
	err := batches.Err()
	switch {
	case err != nil:
	case matches == 0:
		return fmt.Errorf("%w: no batch matches the key sidecar", ErrUnknownContent)
	case end != r.Handle.NextOffset(): // built from a segment that was opened as damaged
		return fmt.Errorf("%w: the key sidecar ends at offset %d, want %d", ErrUnknownContent, end,
			r.Handle.NextOffset())
	}
	if err == nil {
		entries := g.sidecar.Entries(keys.AllHashes)
		for entries.Next() {
			if e := entries.Entry(); ordinals[e.Ordinal] {
				g.hashes[e.Ordinal] = e.Hash
			}
		}
		err = entries.Err()
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// mend writes the batches that match the sidecar, and replacements of the other ones.
func (r Records) mend(ctx context.Context, out *segment.Segment, from *cursor, g guide) error {
	m := mender{guide: g, hasher: r.Sidecars.Salt.Load().Hasher(),
		builder: record.NewBuilder(compress.None, compress.LevelDefault)}
	defer m.builder.Release()
	batches := g.sidecar.Batches()
	for batches.Next() {
		b := batches.Batch()
		if !g.damaged[b.Position] {
			own, err := r.own(ctx, b)
			if err == nil {
				err = out.Append(own)
			}
			if err != nil {
				return err
			}
			continue
		}
		if b.LastOffset < r.LogStart {
			continue
		}
		got, found, err := from.next(ctx, max(b.BaseOffset, r.LogStart), b.LastOffset+1)
		switch {
		case err != nil:
		case found:
			err = full(m.append(out, b, got))
		case b.ProducerID >= 0:
			// The source has removed the records, and may have omitted a batch without records, which
			// contains the last sequence number of its producer.
			err = fmt.Errorf("%w: the source has no records of the batch of producer %d at offset %d",
				ErrUnknownContent, b.ProducerID, b.BaseOffset)
		}
		if err != nil {
			return err
		}
	}
	return batches.Err()
}

// own returns a batch of the damaged segment, or the reason why it does not match the sidecar.
func (r Records) own(ctx context.Context, want keys.Batch) (record.Batch, error) {
	content, began := make([]byte, want.SizeBytes), time.Now()
	n, err := r.Handle.File().ReadAt(content, want.Position)
	if err != nil {
		return nil, fmt.Errorf("read the batch at %d: %w", want.Position, err)
	}
	if err := r.Pace.after(ctx, n, began); err != nil {
		return nil, err
	}
	b, rest, err := record.Next(content)
	switch {
	case err != nil:
		return nil, err
	case len(rest) > 0 || b.BaseOffset() != want.BaseOffset || b.CRC() != want.CRC ||
		b.LeaderEpoch() != want.LeaderEpoch:
		return nil, fmt.Errorf("%w: the batch at %d differs from the key sidecar", record.ErrCorrupt,
			want.Position)
	}
	return b, b.CheckCRC()
}

// mender writes replacements of damaged batches.
type mender struct {
	guide
	hasher  keys.Hasher
	builder *record.Builder
}

// append writes the batch got of the source in place of the damaged batch want.
func (m *mender) append(out *segment.Segment, want keys.Batch, got record.Batch) error {
	switch {
	case got.BaseOffset() != want.BaseOffset || got.LastOffset() != want.LastOffset ||
		got.LeaderEpoch() != want.LeaderEpoch || got.ProducerID() != want.ProducerID ||
		got.Control() != (want.Marker != keys.NoMarker):
		return fmt.Errorf("%w: its batch of offsets %d to %d differs from %d to %d", ErrSource,
			got.BaseOffset(), got.LastOffset(), want.BaseOffset, want.LastOffset)
	case got.CRC() == want.CRC && len(got) == want.SizeBytes:
		return out.Append(got)
	case want.Opaque:
		return fmt.Errorf("%w: the batch of offsets %d to %d is too large for a key sidecar",
			ErrUnknownContent, want.BaseOffset, want.LastOffset)
	case got.Control():
		return m.appendMarker(out, want, got)
	}
	kept, all, err := m.keep(want, got)
	switch {
	case err != nil:
		return err
	case all:
		return out.Append(got)
	}
	// A batch without records remains: it contains the last sequence number of its producer.
	m.builder.SetCodec(got.Codec(), compress.LevelDefault)
	m.builder.Reset(record.IdentityOf(got))
	err = got.Records(segmentlist.DecompressedBytesMax, func(rec *record.Record) error {
		if kept[rec.Offset] {
			m.builder.Add(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	parts, err := m.builder.Encode()
	if err != nil {
		return err
	}
	return out.AppendParts(parts)
}

// keyOf identifies the key of a record; the zero value stands for a record without a key.
type keyOf struct {
	hash  keys.Hash
	keyed bool
}

// keep returns the offsets of the records of got that the damaged batch also contained, and whether
// these are all records of got. The sidecar contains the keys, not the offsets. If a batch contains
// several records with one key, cleaning has removed the earlier ones first.
func (m *mender) keep(want keys.Batch, got record.Batch) (kept map[int64]bool, all bool,
	err error) {
	left := map[keyOf]int{}
	for i := range want.Records {
		hash, keyed := m.hashes[want.FirstOrdinal+uint32(i)]
		left[keyOf{hash, keyed}]++
	}
	type found struct {
		offset int64
		key    keyOf
	}
	var records []found
	err = got.Records(segmentlist.DecompressedBytesMax, func(rec *record.Record) error {
		key := keyOf{}
		if rec.Key != nil {
			key = keyOf{m.hasher.Hash(rec.Key), true}
		}
		records = append(records, found{rec.Offset, key})
		return nil
	})
	if err != nil {
		if errors.Is(err, compress.ErrTooLarge) {
			return nil, false, fmt.Errorf("%w: batch at offset %d: %w", ErrUnknownContent,
				got.BaseOffset(), err)
		}
		return nil, false, fmt.Errorf("%w: batch at offset %d: %w", ErrSource, got.BaseOffset(), err)
	}
	kept = map[int64]bool{}
	for i := len(records) - 1; i >= 0; i-- {
		if r := records[i]; left[r.key] > 0 {
			left[r.key]--
			kept[r.offset] = true
		}
	}
	return kept, len(kept) == len(records), nil
}
