package replica

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// diskWorkerBytesMax limits the total size of the records copied for disk workers. A result that
// would exceed the limit is instead applied before the next fetch.
const diskWorkerBytesMax = 16 << 20

// diskWorkers are the goroutines in which a fetcher applies results that must wait for the disk.
type diskWorkers struct {
	running sync.WaitGroup
	slots   chan struct{} // semaphore for the workers that wait for the disk
	bytes   atomic.Int64  // total size of the copied records
}

// applyLater passes a result to a worker if applying it must wait for the disk, that is, if the
// result truncates or resets the log. After a failover, hundreds of partitions may have such
// results at once, while the producers of all other partitions wait for the next fetch. The
// partition is not fetched until its result is applied.
//
// applyLater reports whether a worker applies the result. Under durability Fsync it returns false,
// because the next fetch waits for the disk anyway.
func (f *fetcher) applyLater(fp *followedPartition, sent *FollowerPartition, got *FollowerResult,
	now time.Time) bool {
	if f.fsync || !waitsForDisk(got) {
		return false
	}
	size := int64(len(got.Records))
	if f.diskWorkers.bytes.Add(size) > diskWorkerBytesMax && size > 0 {
		f.diskWorkers.bytes.Add(-size)
		return false
	}
	result, request, role := *got, *sent, fp.sentRole
	// The records in got are valid only until the next fetch.
	result.Records = slices.Clone(got.Records)
	fp.busy = true
	f.diskWorkers.running.Go(func() {
		f.diskWorkers.slots <- struct{}{}
		f.apply(fp, role, &request, &result, now)
		<-f.diskWorkers.slots
		f.diskWorkers.bytes.Add(-size)
		f.resume(fp)
	})
	return true
}

// resume makes the following fetches include a partition again.
func (f *fetcher) resume(fp *followedPartition) {
	f.mu.Lock()
	f.mu.applied = append(f.mu.applied, fp)
	f.mu.Unlock()
	f.fetchSoon()
}

// waitsForDisk reports whether applying the result syncs a file.
func waitsForDisk(got *FollowerResult) bool {
	return got.DivergingEpoch >= 0 || errors.Is(got.Err, logstore.ErrOffsetOutOfRange)
}
