package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// indexes are a segment's two index files, which are read together with the segment's data file.
// Batches and entries ascend, so each file is read only once, with one entry of each file in
// memory.
type indexes struct {
	offsets cursor[segment.OffsetEntry]
	times   cursor[segment.TimeEntry]
	base    int64
	latest  int64 // largest timestamp in the batches so far; -1 before the first batch
	indexed int64 // timestamp in the last valid entry of the time index
}

// cursor reads an index file. entry is the first entry that was not yet compared with a batch.
type cursor[E any] struct {
	path    string
	file    vfs.File
	entries *entryReader
	parse   func([]byte) E
	ascend  func(before, entry E) bool
	find    func(path string, position int64, format string, args ...any)
	note    func(path, text string)
	last    bool // true in a log's last segment, where zeros after the last entry are no problem

	entry    E
	position int64
	has      bool // true if entry contains an entry
	any      bool // true if an entry was read before
}

// openIndexes opens both index files and reads the first entry of each.
func (v *verifier) openIndexes(f file) (*indexes, error) {
	x := &indexes{base: f.base, latest: -1, indexed: -1}
	x.offsets = cursor[segment.OffsetEntry]{
		path: f.with(segment.IndexExtension), parse: segment.ParseOffsetEntry, find: v.find,
		ascend: func(a, b segment.OffsetEntry) bool {
			return a.Relative < b.Relative && a.Position < b.Position
		},
	}
	x.times = cursor[segment.TimeEntry]{
		path: f.with(segment.TimeIndexExtension), parse: segment.ParseTimeEntry, find: v.find,
		ascend: func(a, b segment.TimeEntry) bool {
			return a.Relative < b.Relative && a.Timestamp < b.Timestamp
		},
	}
	x.offsets.note, x.times.note = v.note, v.note
	x.offsets.last, x.times.last = f.last, f.last
	err := errors.Join(x.offsets.open(v.fsys, segment.OffsetEntryBytes),
		x.times.open(v.fsys, segment.TimeEntryBytes))
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

// paddingNote is the note about index files of an active segment, which Kafka preallocates with
// their maximum size.
const paddingNote = "padded with zeros, as a running or killed Apache Kafka broker leaves it; " +
	"the next start rebuilds it"

func (x *indexes) close() error {
	var failed [2]error
	if x.offsets.file != nil {
		failed[0] = x.offsets.file.Close()
	}
	if x.times.file != nil {
		failed[1] = x.times.file.Close()
	}
	return errors.Join(failed[0], failed[1])
}

// open opens the file and reads the first entry. A missing file is not a problem, because opening
// the log rebuilds it.
func (c *cursor[E]) open(fsys vfs.FS, entryBytes int) (err error) {
	c.file, err = fsys.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		c.file = nil
		c.note(c.path, "the file is missing; the next start rebuilds it")
		return nil
	}
	if err != nil {
		c.file = nil
		return err
	}
	if c.entries, err = newEntryReader(c.file, entryBytes); err != nil {
		return err
	}
	return c.step()
}

// step reads the next entry. If the entry does not ascend, step reports one problem for the rest of
// the file, and reads no further. In a log's last segment, zeros up to the end of the file are not
// a problem.
func (c *cursor[E]) step() error {
	before, first := c.entry, !c.any
	c.has = false
	c.position = c.entries.position
	raw, err := c.entries.next()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.find(c.path, c.position, "the file ends within an entry")
		return nil
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", c.path, err)
	}
	c.entry, c.any = c.parse(raw), true
	if c.last {
		padded, err := c.entries.padded()
		if padded {
			c.note(c.path, paddingNote)
		}
		if padded || err != nil {
			return err
		}
	}
	if !first && !c.ascend(before, c.entry) {
		c.find(c.path, c.position,
			"entry %+v does not ascend after %+v; the rest of the file was not checked", c.entry,
			before)
		return nil
	}
	c.has = true
	return nil
}

// add compares a batch with the entries that refer to it or to an earlier position. An entry of the
// offset index is valid if a batch begins at its position and ends at its offset. An entry of the
// time index is valid if its timestamp is the largest so far, and the batch that ends at its offset
// is the first batch with this timestamp (docs/internals/format/index-files.md).
func (x *indexes) add(b batch) error {
	for x.offsets.has && int64(x.offsets.entry.Position) <= b.position {
		entry := x.offsets.entry
		switch want := b.LastOffset() - x.base; {
		case int64(entry.Position) < b.position:
			x.offsets.find(x.offsets.path, x.offsets.position, "no batch begins at position %d",
				entry.Position)
		case int64(entry.Relative) != want:
			x.offsets.find(x.offsets.path, x.offsets.position,
				"the batch at position %d ends at relative offset %d, not %d",
				entry.Position, want, entry.Relative)
		}
		if err := x.offsets.step(); err != nil {
			return err
		}
	}
	before := x.latest
	x.latest = max(x.latest, b.MaxTimestamp())
	for x.times.has && int64(x.times.entry.Relative) <= b.LastOffset()-x.base {
		entry := x.times.entry
		if b.BaseOffset()-x.base > int64(entry.Relative) || entry.Timestamp != x.latest ||
			before >= x.latest {
			x.times.find(x.times.path, x.times.position,
				"timestamp %d is not the largest one that is first reached at relative offset %d",
				entry.Timestamp, entry.Relative)
		} else {
			x.indexed = entry.Timestamp
		}
		if err := x.times.step(); err != nil {
			return err
		}
	}
	return nil
}

// end checks the entries after the last batch. next is the end offset of the segment. The last
// entry of the time index may be missing in the log's last segment and in other segments that are
// not sealed yet, because Seal writes this entry.
func (x *indexes) end(v *verifier, f file, next int64) error {
	for x.offsets.has {
		x.offsets.find(x.offsets.path, x.offsets.position, "position %d is after the last batch",
			x.offsets.entry.Position)
		if err := x.offsets.step(); err != nil {
			return err
		}
	}
	for x.times.has {
		x.times.find(x.times.path, x.times.position, "relative offset %d is after the last batch",
			x.times.entry.Relative)
		if err := x.times.step(); err != nil {
			return err
		}
	}
	if !f.last && x.times.file != nil && x.indexed < x.latest {
		v.findUnlessOpen(next, x.times.path, x.times.position,
			"the largest timestamp is %d, but the last valid entry has %d", x.latest, x.indexed)
	}
	return nil
}
