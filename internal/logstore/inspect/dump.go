package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// textMaxDefault is the default of DumpOptions.TextMax.
const textMaxDefault = 80

// DumpOptions are the options of Dump.
type DumpOptions struct {
	Records bool  // true to print each record too
	From    int64 // first offset; batches wholly below it are omitted
	To      int64 // batches that begin at or above this offset are omitted; 0 for no limit
	JSON    bool  // true to print one JSON object per line
	TextMax int   // maximum number of printed bytes of a key, value or header; default 80
	// BatchBytesMax is the maximum size of a batch, compressed or decompressed, whose checksum and
	// records are read; default 128 MiB.
	BatchBytesMax int
	// Done counts the printed lines, for a progress display; nil if lines are not counted.
	Done *atomic.Int64
}

func (o DumpOptions) withDefaults() DumpOptions {
	if o.TextMax == 0 {
		o.TextMax = textMaxDefault
	}
	if o.BatchBytesMax == 0 {
		o.BatchBytesMax = batchBytesMaxDefault
	}
	return o
}

// Dump prints the content of files. For a data file it prints one line per batch, and optionally
// one line per record; for an index file, one line per entry; for a producer snapshot, one line per
// producer. For a directory it prints the directory's data files. An invalid batch is printed
// together with its problem. If the rest of a file cannot be read, Dump continues with the next
// file. It returns all errors joined.
func Dump(fsys vfs.FS, paths []string, opts DumpOptions, out io.Writer) error {
	files, err := find(fsys, paths)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	d := dumper{fsys: fsys, opts: opts.withDefaults(),
		printer: printer{out: buffered, json: opts.JSON, done: opts.Done}}
	var failed []error
	for _, f := range files {
		if err := d.dump(f); err != nil {
			failed = append(failed, fmt.Errorf("dump %s: %w", f.path(), err))
		}
		if d.printer.err != nil {
			// The write can fail, for example, because the reader of a pipe has closed the pipe.
			return fmt.Errorf("print: %w", d.printer.err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return errors.Join(failed...)
}

// includes reports whether a batch contains a selected offset. Dump tests every batch and does not
// stop at the first batch above To, because the offsets of damaged batches may not ascend.
func (o DumpOptions) includes(b batch) bool {
	return b.LastOffset() >= o.From && (o.To <= 0 || b.BaseOffset() < o.To)
}

// includesRecord reports whether the offset of a record is selected.
func (o DumpOptions) includesRecord(offset int64) bool {
	return offset >= o.From && (o.To <= 0 || offset < o.To)
}

type dumper struct {
	fsys    vfs.FS
	opts    DumpOptions
	printer printer
}

// dump prints one file in the form for its extension. Invalid entries and batches are printed too.
// If dump fails, the rest of the file could not be read.
func (d *dumper) dump(f file) (err error) {
	opened, err := d.fsys.Open(f.path())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if !d.opts.JSON {
		d.printer.print(fileLine(f.path()))
	}
	switch f.extension {
	case segment.IndexExtension:
		return d.eachEntry(f, opened, segment.OffsetEntryBytes, func(b []byte) {
			entry := segment.ParseOffsetEntry(b)
			d.printer.print(offsetLine{File: f.path(), Offset: f.base + int64(entry.Relative),
				Position: entry.Position})
		})
	case segment.TimeIndexExtension:
		return d.eachEntry(f, opened, segment.TimeEntryBytes, func(b []byte) {
			entry := segment.ParseTimeEntry(b)
			d.printer.print(timeLine{File: f.path(), Timestamp: entry.Timestamp,
				Offset: f.base + int64(entry.Relative)})
		})
	case segment.TxnIndexExtension:
		return d.eachEntry(f, opened, segment.AbortedTxnBytes,
			func(b []byte) { d.printer.print(newTxnLine(f.path(), b)) })
	case snapshotExtension:
		return dumpSmall(d, opened, f.path(), parseSnapshot)
	case epochFile:
		return dumpSmall(d, opened, f.path(), parseEpochs)
	}
	return d.dumpData(f, opened)
}

// dumpSmall prints a file that is read into memory as a whole.
func dumpSmall[L line](d *dumper, opened vfs.File, path string,
	parse func(path string, content []byte) ([]L, error)) error {
	size, err := opened.Size()
	if err != nil {
		return err
	}
	if size > smallBytesMax {
		return fmt.Errorf("file of %d bytes, the limit is %d", size, int64(smallBytesMax))
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(opened, 0, size), content); err != nil {
		return err
	}
	lines, err := parse(path, content)
	for _, l := range lines {
		d.printer.print(l)
	}
	return err
}

// dumpData prints a data file batch by batch. It stops if writing the output fails.
func (d *dumper) dumpData(f file, opened vfs.File) error {
	batches, err := newBatchReader(opened, f.base, d.opts.BatchBytesMax)
	if err != nil {
		return err
	}
	for d.printer.err == nil {
		b, err := batches.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("position %d: %w", batches.position, err)
		}
		if d.opts.includes(b) {
			d.dumpBatch(f, b)
		}
	}
	return nil // Dump returns d.printer.err
}

// dumpBatch prints a batch and the batch's problem. Users inspect damaged files, so the records of
// a batch with a wrong checksum are printed too, as far as they can be decoded.
func (d *dumper) dumpBatch(f file, b batch) {
	d.printer.print(newBatchLine(f.path(), b, b.check()))
	if !d.opts.Records || b.tooLarge {
		return
	}
	err := b.Records(d.opts.BatchBytesMax, func(r *record.Record) error {
		if d.opts.includesRecord(r.Offset) {
			d.printer.print(newRecordLine(f.path(), r, b.Control(), d.opts.TextMax))
		}
		return d.printer.err
	})
	if err != nil && d.printer.err == nil {
		d.printer.print(finding{File: f.path(), Position: b.position, Problem: err.Error()})
	}
}

// check returns an error if the checksum of the batch does not match or was not verified.
func (b batch) check() error {
	if b.damaged {
		return fmt.Errorf("%w: checksum of a batch of %d bytes does not match", record.ErrCorrupt,
			b.size)
	}
	if b.tooLarge {
		return fmt.Errorf("batch of %d bytes exceeds the limit and was not read", b.size)
	}
	return b.CheckCRC()
}

// eachEntry visits the entries of an index file. If the file ends with zeros, it prints a note
// instead of these entries. It fails if the file ends within an entry.
func (d *dumper) eachEntry(f file, opened vfs.File, entryBytes int,
	visit func(entry []byte)) error {
	entries, err := newEntryReader(opened, entryBytes)
	if err != nil {
		return err
	}
	for {
		entry, err := entries.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		padded, err := entries.padded()
		if padded {
			d.printer.print(note{File: f.path(), Note: paddingNote})
		}
		if padded || err != nil {
			return err
		}
		visit(entry)
	}
}

// entryReader reads an index file entry by entry.
type entryReader struct {
	file     vfs.File
	size     int64 // size of the file
	in       *bufio.Reader
	entry    []byte
	position int64
}

func newEntryReader(f vfs.File, entryBytes int) (*entryReader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), readAhead)
	return &entryReader{file: f, size: size, in: in, entry: make([]byte, entryBytes)}, nil
}

// next returns the next entry, which is valid until the next call. At the end of the file it
// returns io.EOF.
func (r *entryReader) next() ([]byte, error) {
	_, err := io.ReadFull(r.in, r.entry)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("incomplete entry at position %d: %w", r.position, err)
	case err != nil:
		return nil, err
	}
	r.position += int64(len(r.entry))
	return r.entry, nil
}

// padded reports whether the entry that next has returned and all following bytes of the file are
// zeros. Apache Kafka preallocates the index files of active segments. A single entry of zeros is
// not padding, because the first entry of a time index may have the timestamp 0 and the relative
// offset 0.
func (r *entryReader) padded() (bool, error) {
	start := r.position - int64(len(r.entry))
	if start == 0 && r.position == r.size ||
		slices.ContainsFunc(r.entry, func(b byte) bool { return b != 0 }) {
		return false, nil
	}
	rest := bufio.NewReader(io.NewSectionReader(r.file, r.position, r.size-r.position))
	for {
		b, err := rest.ReadByte()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil || b != 0 {
			return false, err
		}
	}
}
