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
	JSON bool // one JSON object a line
	// largest batch, compressed or not, that is checked; a larger one is a finding; default 128 MiB
	BatchBytesMax int
}

// Verify checks the segments that the paths name, a segment by any of its files, and prints a line
// for each problem and a summary at the end. Checked are: each batch's length, checksum, offsets
// and records, decompressed; that each index entry points at the right batch and tells the right
// timestamp; that the transaction index tells of the transactions that were aborted, and of no
// other; that the segments of a directory follow one another; that producers and leader epochs keep
// their rules; and that producer snapshots, leader-epoch-checkpoint and key sidecars tell what the
// batches do. It returns how many problems there are; the error says that a check could not be
// made.
func Verify(fsys vfs.FS, paths []string, opts VerifyOptions, out io.Writer) (problems int,
	err error) {
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
	dir     *directory

	recovery recoveryPoints
}

// verifyAll checks each segment once, whichever of its files were named, and returns what could not
// be checked.
func (v *verifier) verifyAll(files []file) (failed []error) {
	done := map[string]bool{}
	var before file
	next := int64(0)
	for _, f := range files {
		if f.extension == snapshotExtension || f.extension == epochFile {
			if err := v.verifySmall(f); err != nil {
				failed = append(failed, fmt.Errorf("verify %s: %w", f.path(), err))
			}
			continue
		}
		f.extension = segment.LogExtension
		if done[f.path()] {
			continue
		}
		done[f.path()] = true
		if v.dir == nil || before.dir != f.dir || !f.whole {
			if err := errors.Join(v.leave(), v.enter(f)); err != nil {
				failed = append(failed, fmt.Errorf("verify %s: %w", f.dir, err))
			}
		}
		if before.dir == f.dir && before.suffix == f.suffix && f.base > before.base &&
			f.base < next {
			v.find(f.path(), 0, "the segment before it ends at offset %d", next-1)
		}
		var err error
		if next, err = v.verify(f); err != nil {
			failed = append(failed, fmt.Errorf("verify %s: %w", f.path(), err))
		}
		before = f
	}
	if err := v.leave(); err != nil {
		failed = append(failed, fmt.Errorf("verify %s: %w", before.dir, err))
	}
	return failed
}

// verifySmall looks at a snapshot or at leader epochs that were named, by themselves.
func (v *verifier) verifySmall(f file) error {
	content, ok, err := v.readSmall(f.path())
	if err != nil || !ok {
		return err
	}
	if f.extension == epochFile {
		_, err = parseEpochs(f.path(), content)
	} else {
		_, err = parseSnapshot(f.path(), content)
	}
	if err != nil {
		v.find(f.path(), 0, "%v", err)
	}
	return nil
}

// find prints a problem and counts it. Problems are findings and not errors: the check goes on with
// what can still be read.
func (v *verifier) find(path string, position int64, format string, args ...any) {
	v.sum.Problems++
	v.printer.print(finding{File: path, Position: position, Problem: fmt.Sprintf(format, args...)})
}

// findAt is find for a batch.
func (v *verifier) findAt(f file, b batch, format string, args ...any) {
	v.sum.Problems++
	offset := b.BaseOffset()
	v.printer.print(finding{File: f.path(), Position: b.position, Offset: &offset,
		Problem: fmt.Sprintf(format, args...)})
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
	sidecar, err := v.openSidecar(f, opened, batches.size)
	defer func() { err = errors.Join(err, sidecar.close()) }()
	if err != nil {
		return f.base, err
	}
	v.sum.Segments++
	v.sum.Bytes += batches.size
	return v.walk(f, walkers{batches, indexes, &v.txns, sidecar})
}

// walkers are what goes along with the batches of a segment.
type walkers struct {
	batches *batchReader
	indexes *indexes
	txns    *transactions
	sidecar *sidecar
}

// walk goes through a data file, and through the files beside it. It returns where the segment
// ends, as far as it could be read.
func (v *verifier) walk(f file, w walkers) (next int64, err error) {
	next = f.base
	for {
		b, err := w.batches.next()
		switch {
		case errors.Is(err, io.EOF):
			return next, errors.Join(w.indexes.end(v, f, next), w.txns.end(), w.sidecar.end())
		case errors.Is(err, record.ErrCorrupt):
			// Without its length there is no next batch. What the indexes say of the rest is not
			// worth a line each.
			v.sum.Problems++
			v.printer.print(finding{File: f.path(), Position: w.batches.position, Offset: &next,
				Problem: err.Error()})
			v.dir.damaged = true
			return next, nil
		case err != nil:
			return next, err
		}
		v.sum.Batches++
		believed := v.checkBatch(f, b, next)
		err = errors.Join(w.indexes.pass(b), v.dir.pass(f, b, believed), w.txns.pass(v, b),
			w.sidecar.pass(b))
		if err != nil {
			return next, err
		}
		next = max(next, b.NextOffset())
	}
}

// checkBatch checks a batch by itself, and its offsets against those before. believed: its header
// can be relied on.
func (v *verifier) checkBatch(f file, b batch, next int64) (believed bool) {
	believed = true
	switch {
	case b.BaseOffset() < next || b.LastOffset() < b.BaseOffset():
		v.findAt(f, b, "offsets %d to %d, where %d or more is due", b.BaseOffset(), b.LastOffset(),
			next)
		believed = false
	case b.LastOffset()-f.base > math.MaxInt32:
		v.findAt(f, b, "offset %d is too far from the segment's base for its indexes",
			b.LastOffset())
	}
	if err := b.check(); err != nil {
		v.findAt(f, b, "%v", err)
		return believed && b.tooLarge // records under a wrong checksum would only add noise
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
		v.findAt(f, b, "%v", err)
	case records > 0 && latest != b.MaxTimestamp():
		v.findAt(f, b, "max timestamp %d, but the records' largest is %d", b.MaxTimestamp(), latest)
	}
	return believed
}
