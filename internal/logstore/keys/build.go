package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/vfs"
)

// Build makes the sidecar of a sealed segment from its spool, under name, and durable. want is the
// identity of the segment, as its owner knows it; the digest may be 0. A spool that tells of other
// data gives ErrMismatch: then a scan makes a new one. After a failure nothing is left of the
// sidecar, unless the directory could not be synced: then it is there or not, and whole.
//
// The spool stays the caller's, to discard. The same spool, built again, gives the same bytes.
func Build(ctx context.Context, fsys vfs.FS, spool *Spool, want Identity, name string,
	opts Options) (Made, error) {
	b := build{fsys: fsys, name: name, spool: spool, meter: opts.meter(ctx), fit: opts.fit(),
		opts: opts}
	if err := b.admit(want); err != nil {
		return Made{}, err
	}
	err := b.run(b.sorted)
	return b.made(), err
}

// build is the making of one sidecar.
type build struct {
	fsys  vfs.FS
	name  string
	spool *Spool
	meter *meter
	opts  Options
	fit   int // entries that are sorted in memory at once
	file  *sidecarFile
	// bodyBytes tells what a batch's records are together, where the spool does not know it; else
	// nil.
	bodyBytes func(Batch) (int64, error)
}

// made tells of the sidecar and of what it took. The spool was written before.
func (b *build) made() Made {
	return Made{Counts: b.spool.counts, ReadBytes: b.meter.read,
		WrittenBytes: b.meter.written + b.spool.size}
}

// admit holds the spool against the segment that it shall tell of.
func (b *build) admit(want Identity) error {
	if err := b.spool.Err(); err != nil {
		return err
	}
	got := b.spool.Identity()
	if want.Digest == 0 {
		want.Digest = got.Digest
	}
	if got != want {
		return fmt.Errorf(
			"%w: it has %d bytes from %d, digest %x; want %d bytes from %d, digest %x",
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

// run writes the four sections. Those of records and entries come from rest, which is where Build
// and Derive differ.
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
		return b.file.abandon(err)
	}
	return nil
}

// batches writes the first section, and notes the probes.
func (b *build) batches() error {
	pages := b.file.begin(batchesSection, streamPageBytes)
	before, number, due := startOf(b.spool.base), 0, 0
	last := b.spool.counts.Batches - 1
	var item []byte
	err := b.spool.each(b.meter.onRead, func(batch Batch) error {
		for ; due < probes && due*last/(probes-1) == number; due++ {
			b.file.header.probes[due] = probe{uint32(batch.Position), batch.CRC}
		}
		number++
		if b.bodyBytes != nil {
			var err error
			if batch.BodyBytes, err = b.bodyBytes(batch); err != nil {
				return err
			}
		}
		item = before.appendItem(item[:0], batch)
		before.advance(batch)
		return pages.write(item)
	}, nil)
	if err != nil {
		return err
	}
	return b.file.end()
}

// sorted writes records, entries and buckets from the spool.
func (b *build) sorted() (err error) {
	sorter := newSorter(b.spool.counts.Entries(), b.fit)
	sorter.fsys, sorter.name, sorter.read = b.fsys, b.name+".runs"+vfs.TemporarySuffix,
		b.meter.onRead
	sorter.out = func(file vfs.File) *output { return &output{file: file, spend: b.meter.onWrite} }
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

// entries writes the last two sections from entries in their order.
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

// entryWriter writes entries, and notes where the pages of each bucket begin.
type entryWriter struct {
	pages  *pageWriter
	shift  int     // a bucket is what is left of a hash when it is shifted so far
	begins []int64 // of the buckets so far
	count  int
	last   packed
	raw    [entryBytes]byte
}

// add writes an entry. That they ascend is checked on this side too: a reader believes it.
func (w *entryWriter) add(e packed) error {
	if w.count > 0 && !w.last.less(e) {
		return fmt.Errorf("%w: entry %x behind %x", ErrMismatch, e, w.last)
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

// endBucket ends what is written of a bucket, and begins those up to the given one.
func (w *entryWriter) endBucket(until int) error {
	if err := w.pages.end(); err != nil {
		return err
	}
	for len(w.begins) <= until {
		w.begins = append(w.begins, w.pages.written)
	}
	return nil
}
