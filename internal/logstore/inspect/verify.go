package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// VerifyOptions of Verify.
type VerifyOptions struct {
	JSON          bool // one JSON object a line
	BatchBytesMax int  // largest batch, compressed or not, that is checked; a larger one is a finding; default 128 MiB
}

// Verify checks the segments that the paths name, a segment by any of its files, and prints a line for each problem and a
// summary at the end. Checked are: each batch's length, checksum, offsets and records, decompressed; that each index entry
// points at the right batch and tells the right timestamp; that the transaction index tells of the transactions that were aborted; and that the segments of a directory follow one another. It returns
// how many problems there are; the error says that a check could not be made.
func Verify(fsys vfs.FS, paths []string, opts VerifyOptions, out io.Writer) (problems int, err error) {
	files, err := find(fsys, paths)
	if err != nil {
		return 0, err
	}
	if opts.BatchBytesMax == 0 {
		opts.BatchBytesMax = batchBytesMaxDefault
	}
	buffered := bufio.NewWriter(out)
	v := verifier{fsys: fsys, opts: opts, printer: printer{out: buffered, json: opts.JSON}}
	failed := v.verifyAll(files)
	v.printer.print(v.sum)
	v.printer.err = errors.Join(v.printer.err, buffered.Flush())
	if v.printer.err != nil {
		failed = append(failed, fmt.Errorf("print: %w", v.printer.err))
	}
	return v.sum.Problems, errors.Join(failed...)
}

// summary is the last line.
type summary struct {
	Segments int   `json:"segments"`
	Batches  int   `json:"batches"`
	Records  int64 `json:"records"` // that could be read
	Bytes    int64 `json:"bytes"`   // of data files
	Problems int   `json:"problems"`
}

func (s summary) text() string {
	return fmt.Sprintf("checked %d segments, %d batches, %d records, %d bytes: %d problems",
		s.Segments, s.Batches, s.Records, s.Bytes, s.Problems)
}

type verifier struct {
	fsys    vfs.FS
	opts    VerifyOptions
	printer printer
	sum     summary
	txns    transactions
}

// verifyAll checks each segment once, whichever of its files were named, and returns what could not be checked.
func (v *verifier) verifyAll(files []file) (failed []error) {
	done := map[string]bool{}
	var before file
	next := int64(0)
	for _, f := range files {
		f.extension = segment.LogExtension
		if done[f.path()] {
			continue
		}
		done[f.path()] = true
		if before.dir == f.dir && before.suffix == f.suffix && f.base > before.base && f.base < next {
			v.find(f.path(), 0, "the segment before it ends at offset %d", next-1)
		}
		var err error
		if next, err = v.verify(f); err != nil {
			failed = append(failed, fmt.Errorf("verify %s: %w", f.path(), err))
		}
		before = f
	}
	return failed
}

// find prints a problem and counts it. Problems are findings and not errors: the check goes on with what can still be read.
func (v *verifier) find(path string, position int64, format string, args ...any) {
	v.sum.Problems++
	v.printer.print(finding{File: path, Position: position, Problem: fmt.Sprintf(format, args...)})
}

// verify checks one segment and returns its next offset.
func (v *verifier) verify(f file) (next int64, err error) {
	opened, err := v.fsys.Open(f.path())
	if err != nil {
		return f.base, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	batches, err := newBatchReader(opened, v.opts.BatchBytesMax)
	if err != nil {
		return f.base, err
	}
	indexes, err := v.openIndexes(f)
	if err != nil {
		return f.base, err
	}
	defer func() { err = errors.Join(err, indexes.close()) }()
	err = v.txns.begin(v, f)
	defer func() { err = errors.Join(err, v.txns.close()) }()
	if err != nil {
		return f.base, err
	}
	v.sum.Segments++
	v.sum.Bytes += batches.size
	return v.walk(f, batches, indexes)
}

// walk goes through a data file, and through its indexes beside it. It returns where the segment ends, as far as it could be read.
func (v *verifier) walk(f file, batches *batchReader, indexes *indexes) (next int64, err error) {
	next = f.base
	for {
		b, err := batches.next()
		switch {
		case errors.Is(err, io.EOF):
			return next, errors.Join(indexes.end(f), v.txns.end())
		case errors.Is(err, record.ErrCorrupt):
			// Without its length there is no next batch. What the indexes say of the rest is not worth a line each.
			v.find(f.path(), batches.position, "%v", err)
			return next, nil
		case err != nil:
			return next, err
		}
		v.sum.Batches++
		v.checkBatch(f, b, next)
		if err := errors.Join(indexes.pass(b), v.txns.pass(b)); err != nil {
			return next, err
		}
		next = max(next, b.NextOffset())
	}
}

// checkBatch checks a batch by itself, and its offsets against those before.
func (v *verifier) checkBatch(f file, b batch, next int64) {
	switch {
	case b.BaseOffset() < next || b.LastOffset() < b.BaseOffset():
		v.find(f.path(), b.position, "offsets %d to %d, where %d or more is due", b.BaseOffset(), b.LastOffset(), next)
	case b.LastOffset()-f.base > math.MaxInt32:
		v.find(f.path(), b.position, "offset %d is too far from the segment's base for its indexes", b.LastOffset())
	}
	if err := b.check(); err != nil {
		v.find(f.path(), b.position, "%v", err)
		return // records under a wrong checksum would only add noise
	}
	latest := int64(math.MinInt64)
	records := int32(0)
	err := b.Records(v.opts.BatchBytesMax, func(r *record.Record) error {
		records++
		latest = max(latest, r.Timestamp)
		return nil
	})
	v.sum.Records += int64(records)
	switch {
	case err != nil:
		v.find(f.path(), b.position, "%v", err)
	case records > 0 && latest != b.MaxTimestamp():
		v.find(f.path(), b.position, "max timestamp %d, but the records' largest is %d", b.MaxTimestamp(), latest)
	}
}
