package sim

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/vfs"
)

// power is the power supply that all brokers share. A power cut ends all processes at one moment.
// Each disk then loses its unsynced data, or some of it.
//
// Disk operations take no simulated time, because their callers hold locks: a goroutine that waits
// for such a lock would stop the bubble's time. So the power fails either between two moments of
// simulated time, or before an operation of a broker's disk. In the second case other goroutines
// run first, so they may already use what the operation would make durable. Half of the messages of
// such a run take no time either (network.fast), so a record can reach all replicas, and its
// producer its acknowledgement, while one disk syncs the record.
type power struct {
	w *world
	// steps and syncs are the numbers of disk operations, and of syncs of records, until the power
	// fails; not positive: none is the last.
	steps, syncs atomic.Int32
	fails        atomic.Int32 // number of power cuts
	mu           struct {
		sync.Mutex
		random *rand.Rand
		disks  []*vfs.Mem // after the power cut, by broker; nil: endProcesses has taken them
	}
}

func newPower(w *world) *power {
	p := &power{w: w}
	p.mu.random = rand.New(rand.NewPCG(w.seed, 13))
	return p
}

// intN returns a random number below n.
func (p *power) intN(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.random.IntN(n)
}

// cutSharedPower cuts the power of all brokers, at once or at one of the next disk operations. The
// machine of the metadata has the same power supply.
func (w *world) cutSharedPower() {
	if !w.profile.sharedPower {
		return
	}
	switch w.random.IntN(4) {
	case 0:
		w.power.fail()
	case 1:
		steps := int32(1 + w.random.IntN(400))
		w.tracef("the power fails in %d operations of the disks", steps)
		w.power.steps.Store(steps)
	default:
		syncs := int32(1 + w.random.IntN(20))
		w.tracef("the power fails in %d syncs of records", syncs)
		w.power.syncs.Store(syncs)
	}
}

// step begins an operation of a broker's disk.
func (p *power) step() { p.countDown(&p.steps) }

// sync begins a sync of a file.
func (p *power) sync(name string) {
	if p.step(); strings.HasSuffix(name, ".log") {
		p.countDown(&p.syncs)
	}
	p.pause()
}

// pause lets other goroutines run, sometimes.
func (p *power) pause() {
	if p.w.profile.sharedPower && p.intN(4) == 0 {
		p.yield(yields)
	}
}

func (p *power) countDown(left *atomic.Int32) {
	if left.Load() > 0 && left.Add(-1) == 0 {
		p.yield(20 * yields)
		p.fail()
	}
}

// yield lets other goroutines run, up to limit times.
func (p *power) yield(limit int) {
	for range p.intN(limit) {
		runtime.Gosched()
	}
}

// fail cuts the power. It ends the processes first, so that no disk is older than an
// acknowledgement that counts.
func (p *power) fail() {
	p.disarm()
	p.fails.Add(1)
	for _, b := range p.w.brokers {
		if l := b.live.Load(); l != nil {
			l.dead.Store(true)
		}
	}
	p.mu.Lock()
	p.mu.disks = nil
	for _, b := range p.w.brokers {
		disk := b.disk.CrashClone()
		if p.mu.random.IntN(2) == 0 {
			disk = b.disk.CrashClonePartly(p.mu.random.Uint64())
		}
		p.mu.disks = append(p.mu.disks, disk)
	}
	p.mu.Unlock()
	if p.w.parent != nil {
		if live := p.w.parent.live.Load(); live != nil {
			live.end(true)
		}
	}
}

// disarm cancels the power cut that is to come.
func (p *power) disarm() {
	p.steps.Store(0)
	p.syncs.Store(0)
}

// endProcesses ends all broker processes after a power cut, and starts others later. Only the
// controller calls it.
func (p *power) endProcesses() {
	p.mu.Lock()
	disks := p.mu.disks
	p.mu.disks = nil
	p.mu.Unlock()
	if disks == nil {
		return
	}
	w := p.w
	w.tracef("power cut of all brokers")
	w.scale.count.sharedCuts++
	w.net.change(func() {}) // wakes the messages that wait in the network
	if w.parent == nil {
		w.stopAPIServer()
	}
	for _, b := range w.brokers {
		if l := b.live.Load(); l != nil {
			w.endProcess(l, exit{lostUnsynced: true}, w.downtime())
		} else {
			b.loseUnsynced()
		}
		b.disk = disks[b.id]
	}
	if b := w.randomBroker(); w.random.IntN(4) == 0 && p.mayDestroyDisk(b) {
		w.tracef("the power cut has destroyed the disk of broker %d", b.id)
		b.loseAll()
		b.replaceDisk()
	}
}

// mayDestroyDisk reports whether a power cut may destroy a broker's disk: each partition has
// another in-sync replica, which has synced as much.
func (p *power) mayDestroyDisk(b *broker) bool {
	return !slices.ContainsFunc(p.w.meta.topics, func(t *topic) bool {
		isr := p.w.meta.recorded(t.name).ISR
		return len(isr) == 0 || len(isr) == 1 && isr[0].Broker == b.id
	})
}

// brokerDisk is the disk as a broker process uses it. Each operation that changes the disk, or
// makes a change durable, is a step of the power supply.
type brokerDisk struct {
	*vfs.Mem
	power  *power
	errors *diskErrors
}

func (d brokerDisk) Create(name string) (vfs.File, error) {
	d.power.step()
	if err := d.errors.write(name); err != nil {
		return nil, err
	}
	return d.file(d.Mem.Create(name))
}

func (d brokerDisk) Open(name string) (vfs.File, error) { return d.file(d.Mem.Open(name)) }

func (d brokerDisk) OpenReadWrite(name string) (vfs.File, error) {
	return d.file(d.Mem.OpenReadWrite(name))
}

func (d brokerDisk) file(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return brokerFile{file, d}, nil
}

func (d brokerDisk) Rename(from, to string) error {
	d.power.step()
	return d.Mem.Rename(from, to)
}

func (d brokerDisk) Remove(name string) error {
	d.power.step()
	return d.Mem.Remove(name)
}

func (d brokerDisk) SyncDir(name string) error {
	d.power.step()
	return d.Mem.SyncDir(name)
}

// brokerFile is a file of a brokerDisk.
type brokerFile struct {
	vfs.File
	disk brokerDisk
}

func (f brokerFile) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.disk.errors.read(f.Name()); err != nil && !f.disk.power.w.inspecting.Load() {
		return 0, err
	}
	return f.File.ReadAt(b, offset)
}

func (f brokerFile) WriteAt(b []byte, offset int64) (int, error) {
	f.disk.power.step()
	if err := f.disk.errors.write(f.Name()); err != nil {
		n, _ := f.File.WriteAt(b[:f.disk.power.intN(len(b)+1)], offset)
		return n, err
	}
	return f.File.WriteAt(b, offset)
}

func (f brokerFile) Truncate(size int64) error {
	f.disk.power.step()
	return f.File.Truncate(size)
}

// Sync takes longer than other operations: other goroutines may run before it has an effect, and
// before it returns.
func (f brokerFile) Sync() error {
	f.disk.power.sync(f.Name())
	defer f.disk.power.pause()
	if err := f.disk.errors.sync(f.disk.Mem, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}
