package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// Damage is a place in a file at rest that contradicts the file's checksum, its format or the
// batches.
type Damage struct {
	File     string `json:"file"`
	Position int64  `json:"position"`
	Problem  string `json:"problem"`
}

// String returns the file, the position and the problem.
func (d Damage) String() string {
	return fmt.Sprintf("%s: position %d: %s", d.File, d.Position, d.Problem)
}

// atRestBytesMax is the size of the largest batch that the checks of files at rest read into
// memory. The checksum of a larger batch is computed in parts.
const atRestBytesMax = 1 << 20

// damagesMax is the maximum number of places that one check returns.
const damagesMax = 16

// CheckSegment checks the files of one sealed segment while its broker uses them: the checksum and
// the offsets of each batch, both indexes, the transaction index, the key sidecar and the .dead
// file. Unlike Verify, it does not decompress batches, and does not apply the rules of producers
// and leader epochs. It accepts a derived file that is missing or belongs to an earlier content of
// the segment, because the broker rebuilds such a file.
//
// A swap or a truncation may replace the files meanwhile. Before the caller uses the result, it
// must therefore check that the log still has the same segment.
func CheckSegment(fsys vfs.FS, dir string, base int64) ([]Damage, error) {
	v := newAtRest(fsys)
	v.dir = &directory{v: v, path: dir, first: base, next: base, synced: math.MaxInt64}
	_, err := v.verify(file{dir: dir, base: base, extension: segment.LogExtension})
	return v.found, err
}

// CheckPartition checks the files of a partition that belong to no segment: producer snapshots,
// leader epochs, the salt of key sidecars, and the files of package datadir. A broker always
// replaces each of these files as a whole.
func CheckPartition(fsys vfs.FS, dir string) ([]Damage, error) {
	v := newAtRest(fsys)
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var failed []error
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.Name() == keys.SaltFile {
			failed = append(failed, v.checkSalt(path))
		}
		f, ok := parseFile(path)
		if ok && f.suffix == "" &&
			(f.extension == snapshotExtension || f.extension == epochFile) {
			failed = append(failed, ignoreMissing(v.verifySmall(f)))
		}
	}
	failed = append(failed, v.checkSmallFiles(datadir.CheckPartition, dir))
	return v.found, errors.Join(failed...)
}

// checkSmallFiles reports the malformed files that a check in package datadir finds.
func (v *verifier) checkSmallFiles(
	check func(fsys vfs.FS, dir string, found func(path string, err error)) error,
	dir string) error {
	return check(v.fsys, dir, func(path string, err error) { v.find(path, 0, "%v", err) })
}

// CheckDataDirectory checks the checkpoints, the files that identify a data directory, and the
// cleaner's reports.
func CheckDataDirectory(fsys vfs.FS, dir string) ([]Damage, error) {
	v := newAtRest(fsys)
	path := filepath.Join(dir, recoveryFile)
	content, ok, err := v.readSmall(path)
	if err == nil && ok {
		if _, err := parseRecoveryPoints(content); err != nil {
			v.find(path, 0, "%v", err)
		}
	}
	return v.found, errors.Join(ignoreMissing(err), ignoreMissing(v.checkDataFiles(dir)))
}

func newAtRest(fsys vfs.FS) *verifier {
	return &verifier{fsys: fsys, atRest: true, opts: VerifyOptions{BatchBytesMax: atRestBytesMax}}
}

// collect stores a problem for the caller of a check of files at rest.
func (v *verifier) collect(f finding) {
	if len(v.found) < damagesMax {
		v.found = append(v.found, Damage{File: f.File, Position: f.Position, Problem: f.Problem})
	}
}

// checkSalt checks the salt of the key sidecars.
func (v *verifier) checkSalt(path string) error {
	content, ok, err := v.readSmall(path)
	if err != nil || !ok {
		return ignoreMissing(err)
	}
	if _, err := keys.DecodeSalt(content); err != nil {
		v.find(path, 0, "%v", err)
	}
	return nil
}

// ignoreMissing returns nil instead of the error for a file that was removed before it was read.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
