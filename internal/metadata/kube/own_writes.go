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

// ownWrites serializes this broker's writes of each Partition. Several goroutines write the same
// Partition, often at the same time: when this broker becomes the leader of the partition, one
// goroutine reports that the broker serves it, and another goroutine adds a follower to the ISR.
// Each write is based on the result of the previous write, so that no write fails with a conflict
// that would require another read.
type ownWrites struct {
	locks [64]sync.Mutex // of Partitions, by a hash of their names
	seed  maphash.Seed
	took  atomic.Int64 // duration of the last write in nanoseconds; 0 after throttle has used it
	mu    struct {
		sync.Mutex
		// last contains this broker's last write of each Partition, by name, until the watch has
		// delivered that write or a later one.
		last map[string]ownWrite
	}
}

// ownWrite is a Partition as this broker wrote it.
type ownWrite struct {
	// base is the resourceVersion before this write. If the watch has not delivered earlier writes
	// of this broker either, base is the resourceVersion before those writes.
	base   string
	result *v1alpha1.Partition
}

func newOwnWrites() *ownWrites {
	w := &ownWrites{seed: maphash.MakeSeed()}
	w.mu.last = map[string]ownWrite{}
	return w
}

// lock acquires the right to write a Partition until unlock is called.
func (w *ownWrites) lock(name string) (unlock func()) {
	l := &w.locks[maphash.String(w.seed, name)%uint64(len(w.locks))]
	l.Lock()
	return l.Unlock
}

// latest returns the latest known version of a Partition. If this broker has replaced the version
// that the watch delivered, that is the result of the broker's last write, and otherwise the
// watched version. A write is a compare-and-swap, so no other writer's version exists between the
// two.
func (w *ownWrites) latest(watched *v1alpha1.Partition) *v1alpha1.Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.mu.last[watched.Name]
	switch {
	case !ok:
		return watched
	case last.base == watched.ResourceVersion && last.result.UID == watched.UID:
		return last.result
	}
	delete(w.mu.last, watched.Name)
	return watched
}

// prune removes the writes that the watch has delivered.
func (w *ownWrites) prune(watched []*v1alpha1.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.last) == 0 {
		return
	}
	kept := map[string]ownWrite{}
	for _, p := range watched {
		if last, ok := w.mu.last[p.Name]; ok && last.base == p.ResourceVersion {
			kept[p.Name] = last
		}
	}
	w.mu.last = kept
}

// An API server that takes longer than slowWrite for a write is overloaded, most likely by the
// elections of hundreds of partitions. A goroutine with many Partitions to write then pauses after
// each write, for throttleFactor times the duration of the write, but for maxThrottle at most.
const (
	slowWrite      = 25 * time.Millisecond
	throttleFactor = 7
	maxThrottle    = time.Second
)

// throttle pauses the caller while the API server is slow, so that other clients can write. The
// operator's elections are more urgent than this broker's reports, because producers wait for
// elections.
func (w *ownWrites) throttle(ctx context.Context) {
	took := time.Duration(w.took.Swap(0)) // so that each write causes one pause at most
	if took <= slowWrite {
		return
	}
	select {
	case <-time.After(min(throttleFactor*took, maxThrottle)):
	case <-ctx.Done():
	}
}

// update writes a Partition's status by compare-and-swap and stores the API server's result in the
// object changed.
func (w *ownWrites) update(ctx context.Context, c client.Client,
	changed *v1alpha1.Partition) error {
	base, began := changed.ResourceVersion, time.Now()
	err := c.Status().Update(ctx, changed)
	w.took.Store(int64(time.Since(began)))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.mu.last[changed.Name]; ok && last.result.ResourceVersion == base {
		base = last.base // the watch has delivered neither this write nor the one before
	}
	w.mu.last[changed.Name] = ownWrite{base: base, result: changed}
	return nil
}
