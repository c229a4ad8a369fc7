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

// VerifyOptions are the options of Verify.
type VerifyOptions struct {
	JSON bool // true to print one JSON object per line
	// BatchBytesMax is the maximum size of a batch, compressed or decompressed, that is checked;
	// default 128 MiB. A larger batch is reported as a problem.
	BatchBytesMax int
}

// Verify checks the segments that the paths name. A path may be any file of a segment. Verify
// prints one line per problem, and a summary. It checks:
//
//   - the length, checksum and offsets of each batch, and its decompressed records;
//   - the position, offset and timestamp of each index entry;
//   - whether the transaction index lists exactly the aborted transactions;
//   - whether the segments of a directory overlap;
//   - the rules of producers and leader epochs;
//   - whether producer snapshots, leader-epoch-checkpoint and key sidecars match the batches;
//   - the checksum of .dead files, and the form of the checkpoints, the cleaner's reports and the
//     other small files in the directories of partitions and in the data directory.
//
// It returns the number of problems. It returns an error if it could not perform a check.
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

// summary is the last line of the output.
type summary struct {
	Segments int   `json:"segments"`
	Batches  int   `json:"batches"`
	Records  int64 `json:"records"` // number of decoded records
	Bytes    int64 `json:"bytes"`   // size of the data files
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

	dataDirectory string // last data directory that was checked
	// atRest restricts the checks to checksums and indexes; see CheckSegment.
	atRest   bool
	found    []Damage // collected if atRest is true
	recovery recoveryPoints
}

// verifyAll checks each segment once, even if several of its files were named. It returns the
// errors of the checks that could not be performed.
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
			v.find(f.path(), 0, "overlaps the previous segment, which ends at offset %d", next-1)
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

// verifySmall checks a producer snapshot or a leader epoch file that was named on the command line,
// without comparing the file with a log.
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

// find prints and counts a problem. A problem is not an error: the checks continue.
func (v *verifier) find(path string, position int64, format string, args ...any) {
	v.report(finding{File: path, Position: position, Problem: fmt.Sprintf(format, args...)})
}

// report prints and counts a problem.
func (v *verifier) report(f finding) {
	v.sum.Problems++
	if v.atRest {
		v.collect(f)
		return
	}
	v.printer.print(f)
}

// note prints an observation that is not a problem.
func (v *verifier) note(path, text string) {
	if !v.atRest {
		v.printer.print(note{File: path, Note: text})
	}
}

// findAt prints and counts a problem of a batch.
func (v *verifier) findAt(f file, b batch, format string, args ...any) {
	offset := b.BaseOffset()
	v.report(finding{File: f.path(), Position: b.position, Offset: &offset,
		Problem: fmt.Sprintf(format, args...)})
}

// verify checks one segment and returns its next offset.
func (v *verifier) verify(f file) (next int64, err error) {
	opened, err := v.fsys.Open(f.path())
	if err != nil {
		return f.base, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	batches, err := newBatchReader(opened, f.base, v.opts.BatchBytesMax)
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
	if err := v.checkDead(f, batches.size); err != nil {
		return f.base, err
	}
	v.sum.Segments++
	v.sum.Bytes += batches.size
	return v.walk(f, segmentChecks{batches, indexes, &v.txns, sidecar})
}

// segmentChecks contains the files of a segment that are read together with the segment's batches.
type segmentChecks struct {
	batches *batchReader
	indexes *indexes
	txns    *transactions
	sidecar *sidecar
}

// walk reads a data file and compares the segment's other files with the batches. It returns the
// end offset of the part of the segment that could be read.
func (v *verifier) walk(f file, c segmentChecks) (next int64, err error) {
	next = f.base
	for {
		b, err := c.batches.next()
		switch {
		case errors.Is(err, io.EOF):
			return next, errors.Join(c.indexes.end(v, f, next), c.txns.end(), c.sidecar.end())
		case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrFormat):
			// The position of the next batch is unknown. Comparing the remaining index entries
			// would only cause more problems with the same reason.
			v.report(finding{File: f.path(), Position: c.batches.position, Offset: &next,
				Problem: err.Error()})
			v.dir.damaged = true
			return next, nil
		case err != nil:
			return next, err
		}
		v.sum.Batches++
		valid := v.checkBatch(f, b, next)
		err = errors.Join(c.indexes.add(b), v.dir.add(f, b, valid), c.txns.add(v, b),
			c.sidecar.add(b))
		if err != nil {
			return next, err
		}
		next = max(next, b.NextOffset())
	}
}

// checkBatch checks a batch, and compares the batch's offsets with next, the end of the previous
// batch. valid reports whether the batch's header can be used.
func (v *verifier) checkBatch(f file, b batch, next int64) (valid bool) {
	valid = true
	switch {
	case b.BaseOffset() < next || b.LastOffset() < b.BaseOffset():
		v.findAt(f, b, "offsets %d to %d, want at least %d", b.BaseOffset(), b.LastOffset(), next)
		valid = false
	case b.LastOffset()-f.base > math.MaxInt32:
		v.findAt(f, b, "offset %d is too far from the segment's base for its indexes",
			b.LastOffset())
	}
	if v.atRest && b.tooLarge && !b.damaged {
		return valid
	}
	if err := b.check(); err != nil {
		v.findAt(f, b, "%v", err)
		// The records of a batch with a wrong checksum would only cause more problems.
		return valid && b.tooLarge
	}
	if v.atRest {
		return valid // because the checksum covers the records
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
	return valid
}
