package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/vfs"
)

// Build durably writes the sidecar of a sealed segment from its spool to the file with the given
// name. want is the identity of the segment; its digest may be 0. If the spool was not built from
// this segment, Build fails with ErrMismatch; the caller then scans the segment. After an error
// there is no sidecar, with one exception: if syncing the directory failed, the sidecar may exist,
// and is then complete.
//
// The caller discards the spool. Building twice from the same spool writes the same bytes.
func Build(ctx context.Context, fsys vfs.FS, spool *Spool, want Identity, name string,
	opts Options) (BuildStats, error) {
	b := build{fsys: fsys, name: name, spool: spool, meter: opts.meter(ctx),
		fit:  opts.entriesInMemory(),
		opts: opts}
	if err := b.checkSpool(want); err != nil {
		return BuildStats{}, err
	}
	err := b.run(b.sorted)
	return b.stats(), err
}

// build builds one sidecar.
type build struct {
	fsys  vfs.FS
	name  string
	spool *Spool
	meter *meter
	opts  Options
	fit   int // number of entries that are sorted in memory at once
	file  *sidecarFile
	index batchIndex
	// bodyBytes computes Batch.BodyBytes if the spool contains batches without records (see
	// Derivation); otherwise it is nil.
	bodyBytes func(Batch) (int64, error)
}

// stats returns the sidecar's counts and the number of bytes that were read and written to build
// it, including the bytes of the spool.
func (b *build) stats() BuildStats {
	return BuildStats{Counts: b.spool.counts, ReadBytes: b.meter.read,
		WrittenBytes: b.meter.written + b.spool.size}
}

// checkSpool checks that the spool was built from the segment with the identity want.
func (b *build) checkSpool(want Identity) error {
	if err := b.spool.Err(); err != nil {
		return err
	}
	got := b.spool.Identity()
	if want.Digest == 0 {
		want.Digest = got.Digest
	}
	if got != want {
		return fmt.Errorf(
			"%w: spool describes %d bytes from offset %d, digest %x; want %d bytes from %d, digest %x",
			ErrMismatch,
			got.LogBytes,
			got.Base,
			got.Digest,
			want.LogBytes,
			want.Base,
			want.Digest,
		)
	}
	return nil
}

// run writes the sidecar. The function rest writes all sections except the batches; Build and
// Derivation pass different functions.
func (b *build) run(rest func() error) (err error) {
	h := header{saltID: b.spool.saltID, identity: b.spool.Identity(), counts: b.spool.counts}
	h.bucketBits = bucketBits(h.counts.Entries())
	if b.file, err = createSidecar(b.fsys, b.name, h, b.meter.onWrite); err != nil {
		return err
	}
	b.file.opts = b.opts
	if err = b.batches(); err == nil {
		err = rest()
	}
	if err == nil {
		err = b.file.publish()
	}
	if err != nil {
		return b.file.discard(err)
	}
	return nil
}

// batches writes the section of batches and sets the header's probes.
func (b *build) batches() error {
	pages := b.file.begin(batchesSection, streamPageBytes)
	b.index.digest = b.file.header.identity.Digest
	context, number, next := startOf(b.spool.base), 0, 0
	last := b.spool.counts.Batches - 1
	var item []byte
	err := b.spool.each(b.meter.onRead, func(batch Batch) error {
		for ; next < probes && next*last/(probes-1) == number; next++ {
			b.file.header.probes[next] = probe{uint32(batch.Position), batch.CRC}
		}
		number++
		if b.bodyBytes != nil {
			var err error
			if batch.BodyBytes, err = b.bodyBytes(batch); err != nil {
				return err
			}
		}
		item = context.appendItem(item[:0], batch)
		b.index.add(context, item)
		context.advance(batch)
		return pages.write(item)
	}, nil)
	if err != nil {
		return err
	}
	return b.file.end()
}

// sorted writes the sections of records, entries and buckets from the spool.
func (b *build) sorted() (err error) {
	sorter := newSorter(b.spool.counts.Entries(), b.fit)
	sorter.fsys, sorter.name, sorter.read = b.fsys, b.name+".runs"+vfs.TemporarySuffix,
		b.meter.onRead
	sorter.out = func(file vfs.File) *output {
		return &output{file: file,
			throttle: b.meter.onWrite}
	}
	defer func() { err = errors.Join(err, sorter.close()) }()

	pages := b.file.begin(recordsSection, streamPageBytes)
	var item []byte
	err = b.spool.each(b.meter.onRead, func(Batch) error { return nil },
		func(_ Batch, ordinal uint32, r *KeyedRecord) error {
			item = appendRecord(item[:0], r.Record)
			if err := pages.write(item); err != nil {
				return err
			}
			if r.NullKey {
				return nil
			}
			return sorter.add(Entry{Hash: r.Hash, Ordinal: ordinal, Tombstone: r.Tombstone})
		})
	if err != nil {
		return err
	}
	if err := b.file.end(); err != nil {
		return err
	}
	return b.entries(sorter.each)
}

// entries writes the sections of entries and buckets, and the batch index between them. each visits
// the entries in the order of the sidecar.
func (b *build) entries(each func(visit func(packed) error) error) error {
	buckets := 1 << b.file.header.bucketBits
	w := entryWriter{
		pages: b.file.begin(entriesSection, entryPageBytes), shift: 64 - b.file.header.bucketBits,
		begins: make([]int64, 0, buckets+1),
	}
	if err := each(w.add); err != nil {
		return err
	}
	if err := w.endBucket(buckets); err != nil {
		return err
	}
	if want := b.file.header.counts.Entries(); w.count != want {
		return fmt.Errorf("%w: %d entries, want %d", ErrMismatch, w.count, want)
	}
	if err := b.file.end(); err != nil {
		return err
	}
	if err := b.batchIndex(); err != nil {
		return err
	}
	pages := b.file.begin(bucketsSection, bucketPageBytes)
	var number [8]byte
	for _, begin := range w.begins {
		binary.BigEndian.PutUint64(number[:], uint64(begin))
		if err := pages.write(number[:]); err != nil {
			return err
		}
	}
	return b.file.end()
}

// batchIndex writes the batch index.
func (b *build) batchIndex() error {
	pages := b.file.begin(indexSection, indexPageBytes)
	var raw []byte
	for _, item := range b.index.items {
		raw = item.append(raw[:0])
		if err := pages.write(raw); err != nil {
			return err
		}
	}
	return b.file.end()
}

// entryWriter writes entries and collects the position at which each bucket begins.
type entryWriter struct {
	pages  *pageWriter
	shift  int     // hash.High >> shift is the number of the bucket
	begins []int64 // positions of the buckets that have begun so far
	count  int
	last   packed
	raw    [entryBytes]byte
}

// add writes an entry. It checks that entries ascend, because a reader checks only the first and
// the last entry of a page.
func (w *entryWriter) add(e packed) error {
	if w.count > 0 && !w.last.less(e) {
		return fmt.Errorf("%w: entry %x after %x", ErrMismatch, e, w.last)
	}
	w.last = e
	w.count++
	if bucket := int(e.high >> w.shift); bucket >= len(w.begins) {
		if err := w.endBucket(bucket); err != nil {
			return err
		}
	}
	return w.pages.write(e.append(w.raw[:0]))
}

// endBucket ends the current bucket and begins all following buckets, up to and including the
// bucket with the number until.
func (w *entryWriter) endBucket(until int) error {
	if err := w.pages.end(); err != nil {
		return err
	}
	for len(w.begins) <= until {
		w.begins = append(w.begins, w.pages.written)
	}
	return nil
}
