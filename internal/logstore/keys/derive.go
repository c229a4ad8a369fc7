package keys

import (
	"context"

	"fmt"
	"io"
	"math/bits"

	"heartwood.dev/heartwood/internal/vfs"
)

// Derivation makes the sidecar of a segment that was made from others by leaving records out: from
// their sidecars, so that no record is decompressed and no key hashed again.
type Derivation struct {
	fsys  vfs.FS
	spool *Spool
}

// NewDerivation begins one, for the output segment with that base. spoolName is where its batches
// may be spooled. It ends with Close.
func NewDerivation(fsys vfs.FS, spoolName string, base int64, salt Salt) *Derivation {
	spool := NewSpool(fsys, spoolName, base, salt)
	spool.bare = true
	return &Derivation{fsys: fsys, spool: spool}
}

// Append takes a batch that was appended to the output, in the order of the log (see Describe, and
// Batch of the source for what a copied batch was). Its Records must be the number of records that
// stayed; FirstOrdinal and BodyBytes are worked out.
func (d *Derivation) Append(b Batch) error {
	b.BodyBytes = 0
	return d.spool.appendBatch(b)
}

// NextPosition is where in the output the next batch is due.
func (d *Derivation) NextPosition() int64 { return d.spool.NextPosition() }

// Source says which records of a segment went into the output: those from First to below End, in
// their order, but for the removed.
type Source struct {
	Keys       *Reader
	First, End uint32 // ordinals
	// Removed tells of an ordinal in [First, End) that it was left out. It is called for each of
	// them once, in order. Nil: none was.
	Removed func(ordinal uint32) bool
}

// Finish writes the sidecar under name, as Build does. sources are in the order in which their
// records stand in the output. Sources and batches that do not agree give ErrMismatch, and a source
// that is damaged ErrCorrupt: then there is no sidecar, and a scan of the output makes one.
func (d *Derivation) Finish(ctx context.Context, sources []Source, name string, opts Options) (Made,
	error) {
	b := build{fsys: d.fsys, name: name, spool: d.spool, meter: opts.meter(ctx), opts: opts}
	if err := d.spool.Err(); err != nil {
		return Made{}, err
	}
	var remaps []*remap
	next := 0
	for _, source := range sources {
		if int(source.End) > source.Keys.Counts().Records || source.First > source.End {
			return Made{}, fmt.Errorf("%w: records %d to %d of %d", ErrMismatch, source.First,
				source.End, source.Keys.Counts().Records)
		}
		if source.Keys.header.saltID != d.spool.saltID {
			return Made{}, fmt.Errorf("%w: source with another salt", ErrMismatch)
		}
		m := newRemap(source, next)
		next += m.kept()
		remaps = append(remaps, m)
	}
	if next != d.spool.counts.Records {
		return Made{}, fmt.Errorf("%w: %d records in batches, %d kept of the sources", ErrMismatch,
			d.spool.counts.Records, next)
	}
	if err := b.count(remaps); err != nil {
		return Made{}, err
	}
	err := b.run(func() error { return b.derived(remaps) })
	return b.made(), err
}

// Close discards what is left of the derivation; the sidecar, if it was made, stays.
func (d *Derivation) Close() error { return d.spool.Discard() }

// count adds to the counts of the batches those that only records know: the number of buckets hangs
// on them. It also has the items of the batches get their BodyBytes, when they are written.
func (b *build) count(remaps []*remap) error {
	counts := &b.spool.counts
	counts.Tombstones, counts.NullKeys, counts.BodyBytes = 0, 0, 0
	all := keptRecords{remaps: remaps}
	for range counts.Records {
		r, err := all.next()
		if err != nil {
			return err
		}
		counts.BodyBytes += int64(r.BodyBytes)
		if r.Tombstone {
			counts.Tombstones++
		}
		if r.NullKey {
			counts.NullKeys++
		}
	}
	byBatch := keptRecords{remaps: remaps}
	b.bodyBytes = func(batch Batch) (sum int64, err error) {
		for range batch.Records {
			r, err := byBatch.next()
			if err != nil {
				return 0, err
			}
			sum += int64(r.BodyBytes)
		}
		return sum, nil
	}
	return nil
}

// derived writes records, entries and buckets from the sources.
func (b *build) derived(remaps []*remap) error {
	pages := b.file.begin(recordsSection, streamPageBytes)
	var item []byte
	all := keptRecords{remaps: remaps}
	for range b.spool.counts.Records {
		r, err := all.next()
		if err != nil {
			return err
		}
		item = appendRecord(item[:0], r)
		if err := pages.write(item); err != nil {
			return err
		}
	}
	if err := b.file.end(); err != nil {
		return err
	}
	return b.entries(func(visit func(packed) error) error {
		var sources []func() (packed, error)
		for _, m := range remaps {
			// else all its entries would be read for nothing, as of a segment that is superseded
			// whole
			if m.kept() > 0 {
				sources = append(sources, m.next)
			}
		}
		return mergePacked(sources, visit)
	})
}

// remap gives the records that stay of one source their new ordinals: a bit for each record, and a
// count for each 64 of them.
type remap struct {
	source Source
	keep   []uint64
	before []uint32 // new ordinal of the first record of each word
	end    uint32   // new ordinal behind the last

	entries *Entries
}

func newRemap(source Source, first int) *remap {
	words := int(source.End-source.First+63) / 64
	m := &remap{source: source, keep: make([]uint64, words), before: make([]uint32, words),
		end: uint32(first)}
	for i := range m.keep {
		m.before[i] = m.end
		at := source.First + uint32(i)*64
		for bit := range min(64, source.End-at) {
			if source.Removed == nil || !source.Removed(at+bit) {
				m.keep[i] |= 1 << bit
			}
		}
		m.end += uint32(bits.OnesCount64(m.keep[i]))
	}
	return m
}

// kept is how many records stay.
func (m *remap) kept() int {
	if len(m.before) == 0 {
		return 0
	}
	return int(m.end - m.before[0])
}

// ordinal returns the new ordinal of a record of the source; ok is false if it did not stay.
func (m *remap) ordinal(old uint32) (renumbered uint32, ok bool) {
	if old < m.source.First || old >= m.source.End {
		return 0, false
	}
	word, bit := (old-m.source.First)/64, (old-m.source.First)%64
	if m.keep[word]>>bit&1 == 0 {
		return 0, false
	}
	return m.before[word] + uint32(bits.OnesCount64(m.keep[word]&(1<<bit-1))), true
}

// keptRecords reads the records that stay of all sources, in the order of the output.
type keptRecords struct {
	remaps  []*remap // the first one is being read
	records *Records
}

// next returns the next one. There is one as long as the caller counts: newRemap has seen to that.
func (k *keptRecords) next() (Record, error) {
	for len(k.remaps) > 0 {
		m := k.remaps[0]
		if k.records == nil && m.kept() > 0 {
			k.records = m.source.Keys.Records()
		}
		for k.records != nil && k.records.Ordinal()+1 < m.source.End && k.records.Next() {
			if _, stays := m.ordinal(k.records.Ordinal()); stays {
				return k.records.Record(), nil
			}
		}
		if k.records != nil && k.records.Err() != nil {
			return Record{}, k.records.Err()
		}
		k.remaps, k.records = k.remaps[1:], nil
	}
	return Record{}, fmt.Errorf("%w: fewer records than were counted", ErrCorrupt)
}

// next returns the next entry that stays, in the order of hashes; io.EOF at the end. Ordinals keep
// their order, so does what is left.
func (m *remap) next() (packed, error) {
	if m.entries == nil {
		m.entries = m.source.Keys.Entries(Everything)
	}
	for m.entries.Next() {
		e := m.entries.Entry()
		if renumbered, ok := m.ordinal(e.Ordinal); ok {
			e.Ordinal = renumbered
			return pack(e), nil
		}
	}
	if err := m.entries.Err(); err != nil {
		return packed{}, err
	}
	return packed{}, io.EOF
}

// Identity is that of the output, once all its batches were appended.
func (d *Derivation) Identity() Identity { return d.spool.Identity() }
