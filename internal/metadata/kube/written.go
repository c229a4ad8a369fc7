package kube

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// written keeps this broker's own writes of Partitions apart: they come from several goroutines, of
// one Partition often at the same moment, as when it begins to lead, says so, and takes a follower
// in. One after the other, each on top of the one before, none of them meets a conflict that it
// would have to read its way out of.
type written struct {
	locks [64]sync.Mutex // of Partitions, by their names
	seed  maphash.Seed
	took  atomic.Int64 // nanoseconds of the last write, until somebody has given way for it
	mu    struct {
		sync.Mutex
		last map[string]write // by name; until the watch has brought it, or something later
	}
}

// write is a Partition as we wrote it, and the resourceVersion that it was written over.
type write struct {
	over   string
	result *v1alpha1.Partition
}

func newWritten() *written {
	w := &written{seed: maphash.MakeSeed()}
	w.mu.last = map[string]write{}
	return w
}

// lock has the writes of a Partition for the caller alone until it calls unlock.
func (w *written) lock(name string) (unlock func()) {
	l := &w.locks[maphash.String(w.seed, name)%uint64(len(w.locks))]
	l.Lock()
	return l.Unlock
}

// newest is the Partition as we know it: as the watch does, unless we wrote over that very version.
// A write is a compare-and-swap, so nothing lies between the two.
func (w *written) newest(watched *v1alpha1.Partition) *v1alpha1.Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.mu.last[watched.Name]
	switch {
	case !ok:
		return watched
	case last.over == watched.ResourceVersion && last.result.UID == watched.UID:
		return last.result
	}
	delete(w.mu.last, watched.Name)
	return watched
}

// settle forgets what the watch has brought.
func (w *written) settle(watched []*v1alpha1.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.last) == 0 {
		return
	}
	still := map[string]write{}
	for _, p := range watched {
		if last, ok := w.mu.last[p.Name]; ok && last.over == p.ResourceVersion {
			still[p.Name] = last
		}
	}
	w.mu.last = still
}

// An API server that takes more than quickWrite for a write has more to do than it can, most likely
// the elections of hundreds of partitions. Who has many Partitions to write then waits after each
// for waitShare as long as it took, and for giveWayMax at most.
const (
	quickWrite = 25 * time.Millisecond
	waitShare  = 7
	giveWayMax = time.Second
)

// giveWay lets others write while the API server is slow: of partitions that are to be elected
// producers wait for longer than for us.
func (w *written) giveWay(ctx context.Context) {
	took := time.Duration(w.took.Swap(0)) // who has written nothing waits for nothing
	if took <= quickWrite {
		return
	}
	select {
	case <-time.After(min(waitShare*took, giveWayMax)):
	case <-ctx.Done():
	}
}

// update writes a Partition's status by compare-and-swap. changed becomes what the API server has
// then.
func (w *written) update(ctx context.Context, c client.Client, changed *v1alpha1.Partition) error {
	over, began := changed.ResourceVersion, time.Now()
	err := c.Status().Update(ctx, changed)
	w.took.Store(int64(time.Since(began)))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.mu.last[changed.Name]; ok && last.result.ResourceVersion == over {
		over = last.over // the watch has brought neither
	}
	w.mu.last[changed.Name] = write{over: over, result: changed}
	return nil
}
