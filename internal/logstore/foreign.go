package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrForeign is wrapped by the error of Open and OpenOffline if another program has written a file
// in a format that this program does not support. No file was changed, so the other program can
// still use the directory.
var ErrForeign = errors.New("files of another program or version; nothing was changed")

// foreignShown is the number of logs that the error of Open lists.
const foreignShown = 10

// refuseForeign fails if a log that no Heartwood broker has used yet contains a file that this
// program cannot read. Open calls it before it changes the first file: if only this log stayed
// offline, the other logs and the checkpoints would be changed, and the directory could not be
// returned to the other program as it was.
func (s *Store) refuseForeign(ids []PartitionID) error {
	var mu sync.Mutex
	faults := map[PartitionID]error{}
	inParallel(ids, s.opts.workers(openWorkers), func(id PartitionID) {
		err := checkForeign(s.opts.FS, filepath.Join(s.opts.Dir, id.String()))
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			faults[id] = err
		}
	})
	if len(faults) == 0 {
		return nil
	}
	all := []error{fmt.Errorf("open %d logs: %w", len(faults), ErrForeign)}
	for _, id := range slices.SortedFunc(maps.Keys(faults), PartitionID.Compare) {
		if len(all) > foreignShown {
			break
		}
		all = append(all, fmt.Errorf("%s: %w", id, faults[id]))
	}
	return errors.Join(all...)
}

// checkForeign checks a log that no broker has used yet. Every log that a broker has used has a
// reclaim policy.
func checkForeign(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Join(dir, policyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := listSegmentFiles(fsys, dir)
	if err != nil {
		return err
	}
	if err := checkDataFiles(fsys, dir, files, false); err != nil {
		return err
	}
	if err := checkSmallFile(fsys, dir, checkpoint.EpochsFile, func(content []byte) error {
		_, err := checkpoint.DecodeEpochs(content)
		return err
	}); err != nil {
		return err
	}
	for _, f := range files {
		if f.kind != snapshotSuffix || f.suffix != "" {
			continue
		}
		if err := checkSmallFile(fsys, dir, f.name, func(content []byte) error {
			_, err := producer.Decode(content, f.base)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkSmallFile fails if a file has a later version than this program supports.
func checkSmallFile(fsys vfs.FS, dir, name string, decode func([]byte) error) error {
	content, err := fsys.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = decode(content)
		if !errors.Is(err, checkpoint.ErrVersion) && !errors.Is(err, producer.ErrVersion) {
			return nil
		}
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// refuseOtherFormats fails if the first records of a segment have another message format than v2.
// recovery calls it before it changes a file. The other records were checked before a broker first
// used the log (refuseForeign), and a scan refuses another format as well (segment.Recover).
// Segments that have not changed since a clean shutdown are not read.
func (r *recovery) refuseOtherFormats() error {
	files, err := listSegmentFiles(r.log.env.fs, r.log.dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f segmentFile) bool {
		_, found := r.summaryOf(f.base)
		return found && f.suffix == ""
	})
	return checkDataFiles(r.log.env.fs, r.log.dir, files, true)
}

// checkDataFiles fails if a data file contains records in another message format than v2. It reads
// only the first batch of each file if firstOnly is set, and otherwise all headers. It also checks
// the files of a swap that recovery may complete, but none that recovery only removes.
func checkDataFiles(fsys vfs.FS, dir string, files []segmentFile, firstOnly bool) error {
	for _, f := range files {
		if !f.isLog() || f.suffix != "" && f.suffix != swapSuffix {
			continue
		}
		if err := checkDataFile(fsys, filepath.Join(dir, f.name), f.base, firstOnly); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func checkDataFile(fsys vfs.FS, name string, base int64, firstOnly bool) error {
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	// the file was only read, so an error of Close is irrelevant
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	return record.FindOtherFormat(file, 0, size, base, firstOnly)
}
