package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrForeign is wrapped by the error of RefuseForeign. No file was changed, so the other program
// can still use the directory.
var ErrForeign = errors.New("files of another program or version; nothing was changed")

// foreignShown is the maximum number of logs that the error of RefuseForeign lists.
const foreignShown = 10

// RefuseForeign fails if a log that no Heartwood broker has used yet contains a file that this
// program cannot read. It is called before the first file of the data directory dir is changed. If
// only this log stayed offline, the other logs and the checkpoints would be changed, and the other
// program could no longer use the directory as it was.
func RefuseForeign(fsys vfs.FS, dir string, ids []checkpoint.PartitionID, workers int) error {
	var mu sync.Mutex
	faults := map[checkpoint.PartitionID]error{}
	parallel.Each(ids, workers, func(id checkpoint.PartitionID) {
		if err := CheckForeign(fsys, filepath.Join(dir, id.String())); err != nil {
			mu.Lock()
			defer mu.Unlock()
			faults[id] = err
		}
	})
	if len(faults) == 0 {
		return nil
	}
	all := []error{fmt.Errorf("open %d logs: %w", len(faults), ErrForeign)}
	for _, id := range slices.SortedFunc(maps.Keys(faults), checkpoint.PartitionID.Compare) {
		if len(all) > foreignShown {
			break
		}
		all = append(all, fmt.Errorf("%s: %w", id, faults[id]))
	}
	return errors.Join(all...)
}

// CheckForeign checks a log that no broker has used yet. A log that a broker has used is recognized
// by its reclaim policy.
func CheckForeign(fsys vfs.FS, dir string) error {
	_, err := fsys.Stat(filepath.Join(dir, datadir.PolicyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := swap.List(fsys, dir)
	if err != nil {
		return err
	}
	if err := CheckFormat(fsys, dir, files, false); err != nil {
		return err
	}
	if err := checkSmallFile(fsys, dir, checkpoint.EpochsFile, func(content []byte) error {
		_, err := checkpoint.DecodeEpochs(content)
		return err
	}); err != nil {
		return err
	}
	for _, f := range files {
		if f.Kind != swap.SnapshotSuffix || f.Suffix != "" {
			continue
		}
		if err := checkSmallFile(fsys, dir, f.Name, func(content []byte) error {
			_, err := producer.Decode(content, f.Base)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkSmallFile fails if the file's version is later than the versions that this program supports.
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
