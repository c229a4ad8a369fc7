package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// textMaxDefault is how much of a key or value is printed.
const textMaxDefault = 80

// DumpOptions of Dump.
type DumpOptions struct {
	Records bool  // print each record, too
	From    int64 // first offset; batches that end below are left out
	To      int64 // batches that begin at or above are left out; 0: no bound
	JSON    bool  // one JSON object a line
	TextMax int   // bytes printed of a key, value or header; default 80
	// largest batch, compressed or not, of which the checksum and the records are read; default 128
	// MiB
	BatchBytesMax int
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

// Dump prints what the paths hold: of a data file a line for each batch, and on demand for each
// record; of an index file a line for each entry, of a producer snapshot one for each producer; of
// a directory its data files. Bad batches are printed with their problem. Where a data file cannot
// be read on, the next one is; the error returned joins all of these.
func Dump(fsys vfs.FS, paths []string, opts DumpOptions, out io.Writer) error {
	files, err := find(fsys, paths)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	d := dumper{fsys: fsys, opts: opts.withDefaults(),
		printer: printer{out: buffered, json: opts.JSON}}
	var failed []error
	for _, f := range files {
		if err := d.dump(f); err != nil {
			failed = append(failed, fmt.Errorf("dump %s: %w", f.path(), err))
		}
		if d.printer.err != nil {
			return fmt.Errorf("print: %w", d.printer.err) // nobody reads on: a closed pipe
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return errors.Join(failed...)
}

// wants tells whether a batch holds an offset that was asked for. It says so of each: offsets of
// damaged batches may not ascend.
func (o DumpOptions) wants(b batch) bool {
	return b.LastOffset() >= o.From && (o.To <= 0 || b.BaseOffset() < o.To)
}

// wantsRecord is wants for one record.
func (o DumpOptions) wantsRecord(offset int64) bool {
	return offset >= o.From && (o.To <= 0 || offset < o.To)
}

type dumper struct {
	fsys    vfs.FS
	opts    DumpOptions
	printer printer
}

// dump prints one file, by its extension. A bad entry or batch is printed; an error says that the
// rest could not be read.
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
		return eachEntry(opened, segment.OffsetEntryBytes, func(_ int64, b []byte) {
			entry := segment.ParseOffsetEntry(b)
			d.printer.print(offsetLine{File: f.path(), Offset: f.base + int64(entry.Relative),
				Position: entry.Position})
		})
	case segment.TimeIndexExtension:
		return eachEntry(opened, segment.TimeEntryBytes, func(_ int64, b []byte) {
			entry := segment.ParseTimeEntry(b)
			d.printer.print(timeLine{File: f.path(), Timestamp: entry.Timestamp,
				Offset: f.base + int64(entry.Relative)})
		})
	case segment.TxnIndexExtension:
		return eachEntry(opened, segment.AbortedTxnBytes,
			func(_ int64, b []byte) { d.printer.print(newTxnLine(f.path(), b)) })
	case snapshotExtension:
		return dumpSmall(d, opened, f.path(), parseSnapshot)
	case epochFile:
		return dumpSmall(d, opened, f.path(), parseEpochs)
	}
	return d.dumpData(f, opened)
}

// dumpSmall prints a file that is held in memory as a whole.
func dumpSmall[L line](d *dumper, opened vfs.File, path string,
	parse func(path string, content []byte) ([]L, error)) error {
	size, err := opened.Size()
	if err != nil {
		return err
	}
	if size > smallBytesMax {
		return fmt.Errorf("%d bytes, more than %d", size, int64(smallBytesMax))
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

// dumpData prints a data file batch by batch, and stops early when nobody reads the output.
func (d *dumper) dumpData(f file, opened vfs.File) error {
	batches, err := newBatchReader(opened, d.opts.BatchBytesMax)
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
		if d.opts.wants(b) {
			d.dumpBatch(f, b)
		}
	}
	return nil // Dump looks at the printer's error
}

// dumpBatch prints a batch and what is wrong with it. Records of a batch with a wrong checksum are
// tried all the same: a person who looks at damage wants to see what is left.
func (d *dumper) dumpBatch(f file, b batch) {
	d.printer.print(newBatchLine(f.path(), b, b.check()))
	if !d.opts.Records || b.tooLarge {
		return
	}
	err := b.Records(d.opts.BatchBytesMax, func(r *record.Record) error {
		if d.opts.wantsRecord(r.Offset) {
			d.printer.print(newRecordLine(f.path(), r, b.Control(), d.opts.TextMax))
		}
		return d.printer.err
	})
	if err != nil && d.printer.err == nil {
		d.printer.print(finding{File: f.path(), Position: b.position, Problem: err.Error()})
	}
}

// check tells what is wrong with a batch's checksum, as far as it can be known.
func (b batch) check() error {
	if b.tooLarge {
		return fmt.Errorf("not read: a batch of %d bytes is beyond the limit", b.size)
	}
	return b.CheckCRC()
}

// eachEntry visits the entries of an index file with their positions, and fails when they do not
// end with the file.
func eachEntry(f vfs.File, entryBytes int, visit func(position int64, entry []byte)) error {
	entries, err := newEntryReader(f, entryBytes)
	if err != nil {
		return err
	}
	for {
		position := entries.position
		entry, err := entries.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		visit(position, entry)
	}
}

// entryReader reads an index file entry by entry.
type entryReader struct {
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
	return &entryReader{in: in, entry: make([]byte, entryBytes)}, nil
}

// next returns the next entry, valid until the call after; io.EOF at the end.
func (r *entryReader) next() ([]byte, error) {
	_, err := io.ReadFull(r.in, r.entry)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("half an entry at position %d: %w", r.position, err)
	case err != nil:
		return nil, err
	}
	r.position += int64(len(r.entry))
	return r.entry, nil
}

// zeros tells whether an entry, and all that follows it up to the end of the file, is zeros. The
// reader is used up then.
func (r *entryReader) zeros(entry []byte) (bool, error) {
	for {
		for _, b := range entry {
			if b != 0 {
				return false, nil
			}
		}
		var err error
		entry, err = r.next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}
