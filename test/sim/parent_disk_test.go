package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/vfs"
)

// yields is the number of times that a goroutine yields to the others. An image needs several
// yields until it has reached the connection to a broker.
const yields = 50

// metadataName is the local store's file.
const metadataName = "/metadata.json"

// metadataFile is the history of the metadata file: the content that is durable, and the contents
// that a power cut can lose. It verifies each change that has become durable. It reads the file in
// the format of docs/internals/format/local-metadata.md, not through the store.
type metadataFile struct {
	w  *world
	mu struct {
		sync.Mutex
		content []byte // last synced content; nil: none
		set     *partitionset.Set
		renamed [][]byte // later contents whose rename is not synced
	}
}

// fileContent is the part of the metadata file that the simulation verifies.
type fileContent struct {
	BrokerEpochs map[int32]int64   `json:"brokerEpochs"`
	Topics       []json.RawMessage `json:"topics"`
	Assignments  map[string]string `json:"assignments"`
	Partitions   map[string]string `json:"partitions"`
	Directories  map[string]string `json:"directories"`
}

func emptySet() *partitionset.Set {
	set, _ := partitionset.Decode(&v1alpha1.PartitionSet{}, nil)
	return set
}

// load verifies the content that a new process finds: the last synced content, or a later one. It
// reports whether there is no file yet.
func (f *metadataFile) load(disk *vfs.Mem) (isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := disk.ReadFile(metadataName)
	index := slices.IndexFunc(f.mu.renamed, func(c []byte) bool { return bytes.Equal(c, content) })
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.mu.content == nil:
		f.mu.renamed, f.mu.set = nil, emptySet()
		return true
	case err != nil:
		f.w.fail("the metadata file is lost: %v", err)
	case bytes.Equal(content, f.mu.content):
		f.mu.renamed = nil
	case index >= 0:
		f.mu.renamed = f.mu.renamed[:index+1] // a power cut can still lose it
	default:
		f.w.fail("the metadata file has neither the last synced content nor a later one: %s", content)
	}
	return false
}

// unsynced returns the number of contents that a power cut can lose.
func (f *metadataFile) unsynced() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.renamed)
}

// rename processes the rename of a new content.
func (f *metadataFile) rename(content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.renamed = append(f.mu.renamed, content)
}

// sync processes the sync of the directory, after which the last content is durable. It verifies
// the change.
func (f *metadataFile) sync(unclean func(key partitionset.Key, had, has *partitionset.State) bool) {
	f.mu.Lock()
	if len(f.mu.renamed) == 0 {
		f.mu.Unlock()
		return
	}
	f.mu.content = f.mu.renamed[len(f.mu.renamed)-1]
	f.mu.renamed = nil
	before := f.mu.set
	decoded := f.decode(f.mu.content)
	set, faults := partitionset.Decode(&v1alpha1.PartitionSet{
		Spec: v1alpha1.PartitionSetSpec{Assignments: decoded.Assignments},
		Status: v1alpha1.PartitionSetStatus{Partitions: decoded.Partitions,
			Directories: decoded.Directories},
	}, before)
	f.mu.set = set
	f.mu.Unlock()
	if len(faults) > 0 {
		f.w.fail("metadata file: %v", faults)
	}
	f.w.checkChange(before, set, unclean)
}

func (f *metadataFile) decode(content []byte) (decoded fileContent) {
	if err := json.Unmarshal(content, &decoded); err != nil {
		f.w.fail("metadata file: %v", err)
	}
	return decoded
}

// get returns the recorded entry for a topic's partition.
func (f *metadataFile) get(t *topic) partitionset.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, _ := f.mu.set.Get(t.key())
	return entry
}

// processDisk is the disk that the parent process uses. The process can end at each step.
type processDisk struct {
	*vfs.Mem
	process *parentProcess
	steps   atomic.Int32 // number of steps until the process ends; if not positive, it does not end
	cut     atomic.Bool  // true if the process ends by a power cut
}

// endAfter ends the process after the given number of steps; 0: never.
func (d *processDisk) endAfter(steps int32, cut bool) {
	d.cut.Store(cut)
	d.steps.Store(steps)
}

// step begins a step. No simulated time passes during a step, because its caller may hold a lock.
// But before the process ends, its other goroutines run, and can send data that they already have.
func (d *processDisk) step() error {
	if d.steps.Add(-1) == 0 {
		for range yields {
			runtime.Gosched()
		}
		d.process.end(d.cut.Load())
	}
	if d.process.dead.Load() {
		return errProcessEnded
	}
	return nil
}

func (d *processDisk) Create(name string) (vfs.File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	file, err := d.Mem.Create(name)
	return processFile{file, d}, err
}

func (d *processDisk) Remove(name string) error {
	return errors.Join(d.step(), d.Mem.Remove(name))
}

func (d *processDisk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	content, err := d.Mem.ReadFile(from)
	if err == nil {
		err = d.Mem.Rename(from, to)
	}
	if err == nil && to == metadataName {
		d.process.file.rename(content)
		d.process.noteEpochs(d.process.file.decode(content).BrokerEpochs)
	}
	return err
}

func (d *processDisk) SyncDir(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	if err := d.Mem.SyncDir(name); err != nil {
		return err
	}
	d.process.file.sync(d.process.unclean)
	return d.step()
}

// processFile is a file that the parent process writes.
type processFile struct {
	vfs.File
	disk *processDisk
}

func (f processFile) WriteAt(b []byte, offset int64) (int, error) {
	if err := f.disk.step(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, offset)
}

func (f processFile) Sync() error {
	if err := f.disk.step(); err != nil {
		return err
	}
	return f.File.Sync()
}

// noteEpochs stores the broker epochs of the broker processes that register. A process has its
// epoch even if the parent process ends before it has published the epoch.
func (p *parentProcess) noteEpochs(epochs map[int32]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, l := range p.mu.registering {
		if l.epoch.Load() == 0 {
			l.epoch.Store(epochs[id])
		}
	}
}

// unclean reports whether a change is an unclean election. After such an election, the leader is
// the only in-sync replica. Before, it was not in sync, or it has returned from an unclean stop, or
// its records are lost. A replica that joins the ISR and becomes the leader in one change is in
// sync, because it is the only target of a reassignment.
func (p *parentProcess) unclean(key partitionset.Key, had, has *partitionset.State) bool {
	if had == nil || had.LeaderEpoch == 0 {
		return false // never elected before
	}
	if has.LeaderEpoch == had.LeaderEpoch || has.Leader == placement.NoLeader {
		return false // not an election
	}
	if len(has.ISR) != 1 {
		return false
	}
	index := slices.IndexFunc(had.ISR,
		func(m placement.InSyncReplica) bool { return m.Broker == has.Leader })
	p.mu.Lock()
	defer p.mu.Unlock()
	if index < 0 || p.accepting.Load() {
		return p.mu.proposed[proposal{key.Topic, had.LeaderEpoch, has.Leader, has.ISR[0].Epoch}] == 0
	}
	own := had.ISR[index].Epoch
	return own != has.ISR[0].Epoch && p.mu.cleanEpochs[has.Leader] != own
}
