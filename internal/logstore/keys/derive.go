package keys

import (
	"context"
	"fmt"
	"io"
	"math/bits"

	"heartwood.dev/heartwood/internal/vfs"
)

// Derivation writes the sidecar of a cleaned segment from the sidecars of the segment's sources.
// The cleaned segment contains the kept records of its sources. No record is decompressed and no
// key is hashed again.
type Derivation struct {
	fsys  vfs.FS
	spool *Spool
}

// NewDerivation returns a derivation for the output segment with the given base offset. The file
// spoolName stores the batches that do not fit into memory. The caller must call Close.
func NewDerivation(fsys vfs.FS, spoolName string, base int64, salt Salt) *Derivation {
	spool := NewSpool(fsys, spoolName, base, salt)
	spool.batchesOnly = true
	return &Derivation{fsys: fsys, spool: spool}
}

// Append adds a batch that was appended to the output. The caller creates b with Describe or, for a
// copied batch, copies b from the source. b.Records must be the number of kept records. Append
// ignores b.FirstOrdinal and b.BodyBytes, and computes both.
func (d *Derivation) Append(b Batch) error {
	b.BodyBytes = 0
	return d.spool.appendBatch(b)
}

// NextPosition returns the position of the next batch in the output file.
func (d *Derivation) NextPosition() int64 { return d.spool.NextPosition() }

// DerivationSource selects the records of a source segment that are in the output: the records with
// ordinals in [First, End) that were not removed.
type DerivationSource struct {
	Keys       *Reader
	First, End uint32 // ordinals
	// Removed reports whether the record with the given ordinal in [First, End) was removed. It is
	// called once for each ordinal, in order. Nil means that no record was removed.
	Removed func(ordinal uint32) bool
}

// Finish writes the sidecar to the file name, like Build. The order of sources is the order of
// their records in the output. Finish fails with ErrMismatch if the sources do not match the
// appended batches, and with ErrCorrupt if a source's sidecar is corrupt. Then there is no sidecar,
// and the caller has to build it by scanning the output.
func (d *Derivation) Finish(ctx context.Context, sources []DerivationSource, name string,
	opts Options) (BuildStats,
	error) {
	b := build{fsys: d.fsys, name: name, spool: d.spool, meter: opts.meter(ctx), opts: opts}
	if err := d.spool.Err(); err != nil {
		return BuildStats{}, err
	}
	var remaps []*remap
	next := 0
	for _, source := range sources {
		if int(source.End) > source.Keys.Counts().Records || source.First > source.End {
			return BuildStats{}, fmt.Errorf("%w: records %d to %d of %d", ErrMismatch, source.First,
				source.End, source.Keys.Counts().Records)
		}
		if source.Keys.header.saltID != d.spool.saltID {
			return BuildStats{}, fmt.Errorf("%w: source has another salt", ErrMismatch)
		}
		m := newRemap(source, next)
		next += m.kept()
		remaps = append(remaps, m)
	}
	if next != d.spool.counts.Records {
		return BuildStats{}, fmt.Errorf("%w: batches have %d records, sources have %d kept records",
			ErrMismatch,
			d.spool.counts.Records, next)
	}
	if err := b.count(remaps); err != nil {
		return BuildStats{}, err
	}
	err := b.run(func() error { return b.derived(remaps) })
	return b.stats(), err
}

// Close discards the spool. It does not delete the sidecar that Finish has written.
func (d *Derivation) Close() error { return d.spool.Discard() }

// count adds the counts of the kept records to the counts of the spool, which contains only
// batches, and sets bodyBytes. The header needs the counts before the entries are written, because
// the number of buckets depends on them.
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

// derived writes the sections of records, entries and buckets from the sources' sidecars.
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
			if m.kept() > 0 { // entries of a source without kept records are not needed
				sources = append(sources, m.next)
			}
		}
		return mergePacked(sources, visit)
	})
}

// remap maps the ordinals of one source's kept records to their ordinals in the output. It stores
// one bit for each record and one number for each 64 records.
type remap struct {
	source DerivationSource
	keep   []uint64
	before []uint32 // new ordinal of the first kept record, for each word of keep
	end    uint32   // new ordinal after the last kept record

	entries *Entries
}

func newRemap(source DerivationSource, first int) *remap {
	words := int(source.End-source.First+63) / 64
	m := &remap{source: source, keep: make([]uint64, words), before: make([]uint32, words),
		end: uint32(first)}
	for i := range m.keep {
		m.before[i] = m.end
		position := source.First + uint32(i)*64
		for bit := range min(64, source.End-position) {
			if source.Removed == nil || !source.Removed(position+bit) {
				m.keep[i] |= 1 << bit
			}
		}
		m.end += uint32(bits.OnesCount64(m.keep[i]))
	}
	return m
}

// kept returns the number of kept records.
func (m *remap) kept() int {
	if len(m.before) == 0 {
		return 0
	}
	return int(m.end - m.before[0])
}

// ordinal returns the new ordinal of a source's record; ok is false if the record was removed.
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

// keptRecords iterates over the kept records of all sources, in the order of the output.
type keptRecords struct {
	remaps  []*remap // not completely read sources; the first one is being read
	records *Records
}

// next returns the next kept record. The caller must not call it again after the last record.
func (k *keptRecords) next() (Record, error) {
	for len(k.remaps) > 0 {
		m := k.remaps[0]
		if k.records == nil && m.kept() > 0 {
			k.records = m.source.Keys.Records()
		}
		for k.records != nil && k.records.Ordinal()+1 < m.source.End && k.records.Next() {
			if _, kept := m.ordinal(k.records.Ordinal()); kept {
				return k.records.Record(), nil
			}
		}
		if k.records != nil && k.records.Err() != nil {
			return Record{}, k.records.Err()
		}
		k.remaps, k.records = k.remaps[1:], nil
	}
	return Record{}, fmt.Errorf("%w: sources contain fewer kept records than counted before", ErrCorrupt)
}

// next returns the source's next kept entry with its new ordinal, or io.EOF after the last entry.
// Entries are ordered by hash and ordinal, and renumbering keeps that order.
func (m *remap) next() (packed, error) {
	if m.entries == nil {
		m.entries = m.source.Keys.Entries(AllHashes)
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

// Identity returns the identity of the output, after all batches were appended.
func (d *Derivation) Identity() Identity { return d.spool.Identity() }
