package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// directory is the state of one partition that verify has computed from the segments read so far.
type directory struct {
	v    *verifier
	path string
	// whole is true if all segments of the directory are read, and false if a single segment was
	// named.
	whole bool
	first int64 // base offset of the first segment
	next  int64 // end offset of the batches read so far
	// synced is the offset below which index files must be complete. The index entries of batches
	// above it may exist only in a broker's memory (syncedBelow).
	synced int64
	// missing is the number of offsets below next that no batch contains. Cleaning removes whole
	// batches, so it has removed at most this many of a producer's sequence numbers.
	missing int64
	// damaged is true if a batch has an invalid header. Then no state that is computed from the
	// batches is certain.
	damaged   bool
	producers map[int64]*producer
	snapshots []snapshotFile
	epochs    epochHistory
}

// enter starts the checks of a directory, or of a single segment.
func (v *verifier) enter(f file) error {
	v.dir = &directory{v: v, path: f.dir, whole: f.whole, first: f.base, next: f.base,
		producers: map[int64]*producer{}}
	var err error
	if v.dir.synced, err = v.syncedBelow(f.dir); err != nil {
		return err
	}
	if !f.whole {
		return nil
	}
	if err := v.checkDataDirectory(f.dir); err != nil {
		return err
	}
	entries, err := v.fsys.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", f.dir, err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		path := filepath.Join(f.dir, entry.Name())
		switch base, rest, ok := segment.ParseName(entry.Name()); {
		case ok && rest == snapshotExtension:
			v.dir.snapshots = append(v.dir.snapshots, snapshotFile{path, base}) // sorted by name
		case leftover(entry.Name()):
			v.note(path, "leftover of an interrupted operation; the next start removes it")
		}
	}
	if err := v.checkSmallFiles(datadir.CheckPartition, f.dir); err != nil {
		return err
	}
	return v.dir.loadEpochs()
}

// leftover reports whether a broker's start removes the file. Verify prints a note about such a
// file, and counts no problem.
func leftover(name string) bool {
	for _, suffix := range []string{".cleaned", ".swap", ".deleted", vfs.TemporarySuffix} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// exact reports whether the batches read are all batches that the log ever had. If so, the state
// computed from these batches must equal the state that the broker has stored.
func (d *directory) exact() bool { return d.whole && d.first == 0 && d.missing == 0 && !d.damaged }

// add adds a batch. valid is false if the batch's header is invalid. The batch's offsets are then
// counted as missing.
func (d *directory) add(f file, b batch, valid bool) error {
	if d.v.atRest {
		return nil
	}
	if b.BaseOffset() > d.next {
		d.missing += b.BaseOffset() - d.next
	}
	if !valid {
		d.damaged = true
		d.missing += max(b.NextOffset()-max(b.BaseOffset(), d.next), 0)
		d.next = max(d.next, b.NextOffset())
		return nil
	}
	if err := d.compareSnapshots(b.BaseOffset()); err != nil {
		return err
	}
	d.epochs.add(d.v, f, b)
	d.addProducer(f, b)
	d.next = max(d.next, b.NextOffset())
	return nil
}

// leave ends the checks of a directory. It checks the leader epochs and snapshots that apply after
// the last batch.
func (v *verifier) leave() error {
	d := v.dir
	v.dir = nil
	if d == nil || !d.whole {
		return nil
	}
	d.epochs.end(v, d)
	if err := d.compareSnapshots(d.next); err != nil {
		return err
	}
	for _, s := range d.snapshots {
		v.find(s.path, 0, "producer state as of offset %d, but the log ends at %d", s.offset,
			d.next)
	}
	return nil
}

// readSmall reads a whole file of at most smallBytesMax bytes into memory.
func (v *verifier) readSmall(path string) (content []byte, ok bool, err error) {
	return v.readLimited(path, smallBytesMax)
}

// readLimited reads a whole file into memory. ok is false if the file does not exist or is too
// large; a too large file is also reported as a problem.
func (v *verifier) readLimited(path string, bytesMax int64) (content []byte, ok bool, err error) {
	info, err := v.fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if info.Size() > bytesMax {
		v.find(path, 0, "the file has %d bytes and was not read; the limit is %d", info.Size(),
			bytesMax)
		return nil, false, nil
	}
	content, err = v.fsys.ReadFile(path)
	return content, err == nil, err
}

// smallBytesMax is the maximum size of a file that readSmall reads. It suffices for a snapshot of a
// million producers.
const smallBytesMax = 64 << 20

// note is an observation that is not a problem.
type note struct {
	File string `json:"file"`
	Note string `json:"note"`
}

func (n note) text() string { return n.File + ": note: " + n.Note }
