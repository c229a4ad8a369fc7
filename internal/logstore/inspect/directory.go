package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// directory is what verify follows along the segments of one partition.
type directory struct {
	v     *verifier
	path  string
	whole bool  // all segments are walked, not one that was named alone
	first int64 // base of the first segment
	next  int64 // end of what was walked
	// synced: below it index files are complete, above a broker may have some of it in memory
	// (syncedBelow).
	synced int64
	// missing counts the offsets below next that no batch holds. Cleaning takes batches whole; so
	// this is how much of a producer's sequence it can have taken, at most.
	missing int64
	// damaged: a batch could not be believed, so nothing that is made from batches is certain any
	// more.
	damaged   bool
	producers map[int64]*producer
	snapshots []snapshotFile
	epochs    epochHistory
}

// enter begins a directory, or a segment that is looked at alone.
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
			v.printer.print(note{File: path,
				Note: "left behind by something that was cut off; a start removes it"})
		}
	}
	return v.dir.loadEpochs()
}

// leftover tells of files that a start removes: they are no damage, but worth a line.
func leftover(name string) bool {
	for _, suffix := range []string{".cleaned", ".swap", ".deleted", vfs.TemporarySuffix} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// exact tells whether the walk has seen every batch that the log ever had: then what is made of
// them is what a broker made of them.
func (d *directory) exact() bool { return d.whole && d.first == 0 && d.missing == 0 && !d.damaged }

// pass takes in a batch; a batch that is damaged counts as one that is missing.
func (d *directory) pass(f file, b batch, believed bool) error {
	if b.BaseOffset() > d.next {
		d.missing += b.BaseOffset() - d.next
	}
	if !believed {
		d.damaged = true
		d.missing += max(b.NextOffset()-max(b.BaseOffset(), d.next), 0)
		d.next = max(d.next, b.NextOffset())
		return nil
	}
	if err := d.compareSnapshots(b.BaseOffset()); err != nil {
		return err
	}
	d.epochs.pass(d.v, f, b)
	d.passProducer(f, b)
	d.next = max(d.next, b.NextOffset())
	return nil
}

// leave looks at what the batches have not answered.
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

// readSmall reads a file that is held in memory as a whole; ok is false if it is missing, or, which
// is a finding, too large.
func (v *verifier) readSmall(path string) (content []byte, ok bool, err error) {
	info, err := v.fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if info.Size() > smallBytesMax {
		v.find(path, 0, "%d bytes are not read: more than %d", info.Size(), int64(smallBytesMax))
		return nil, false, nil
	}
	content, err = v.fsys.ReadFile(path)
	return content, err == nil, err
}

// smallBytesMax is room for a million producers.
const smallBytesMax = 64 << 20

// note is worth a line, and no problem.
type note struct {
	File string `json:"file"`
	Note string `json:"note"`
}

func (n note) text() string { return n.File + ": note: " + n.Note }
