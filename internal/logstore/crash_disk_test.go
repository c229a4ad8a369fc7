package logstore

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// crashDisk is a disk in memory on which a crash test simulates a power failure at any step.
type crashDisk struct {
	*storetest.Disk
	mem *vfs.Mem
	// acting is locked by the workload during each act. The store deletes the directories of
	// released logs in a separate goroutine. RemoveAll lets it delete only between two acts,
	// because otherwise runs with the same seed would differ.
	acting sync.Mutex
}

func newCrashDisk(mem *vfs.Mem, step func(op, name string)) *crashDisk {
	return &crashDisk{Disk: &storetest.Disk{FS: mem, Step: step}, mem: mem}
}

// RemoveAll waits until no act is running before it deletes the directory of a released log.
func (d *crashDisk) RemoveAll(name string) error {
	if strings.HasSuffix(name, datadir.DeleteSuffix) {
		d.acting.Lock()
		defer d.acting.Unlock()
	}
	return d.Disk.RemoveAll(name)
}

// crashed returns the disk as a power failure leaves it: a random part of the unsynced changes is
// kept; in one case of four none is kept.
func crashed(mem *vfs.Mem, random *rand.Rand) *vfs.Mem {
	if random.IntN(4) == 0 {
		return mem.CrashClone()
	}
	return mem.CrashClonePartly(random.Uint64())
}

// leftovers lists temporary, cleaned, swap and deleted files in the partitions' directories. The
// start of a store should have removed all of them.
func leftovers(fsys vfs.FS) (names []string, err error) {
	dirs, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if _, ok := datadir.ParsePartition(dir.Name()); !ok || !dir.IsDir() {
			continue
		}
		var entries []fs.DirEntry
		if entries, err = fsys.ReadDir(dataDir + "/" + dir.Name()); err != nil {
			return nil, err
		}
		for _, entry := range entries {
			for _, suffix := range []string{swap.CleanedSuffix, swap.SwapSuffix, swap.DeletedSuffix,
				vfs.TemporarySuffix} {
				if strings.HasSuffix(entry.Name(), suffix) {
					names = append(names, dir.Name()+"/"+entry.Name())
				}
			}
		}
	}
	return names, nil
}
