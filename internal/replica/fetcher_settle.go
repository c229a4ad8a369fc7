package replica

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// settlingBytesMax bounds what is copied of answers for workers that wait for the disk. What is
// beyond waits in the fetcher.
const settlingBytesMax = 16 << 20

// settling are the workers that do what waits for the disk.
type settling struct {
	workers sync.WaitGroup
	slots   chan struct{} // as many wait for the disk at once
	bytes   atomic.Int64  // of copied batches
}

// settleLater leaves an answer to a worker if carrying it out waits for the disk: the first batch
// of a leader epoch, which syncs the file of epochs, and what cuts a log or begins it anew. After a
// failover hundreds of partitions have such an answer at once, and producers of all the others wait
// for the next fetch. Until it is carried out the partition is not asked for.
//
// Not so under durability Fsync: there the next fetch waits for the disk anyway.
func (f *fetcher) settleLater(w *pulling, asked *FollowerPartition, got *FollowerResult,
	now time.Time) bool {
	if f.fsync || !waitsForDisk(w.partition.log, got) {
		return false
	}
	size := int64(len(got.Records))
	if f.slow.bytes.Add(size) > settlingBytesMax && size > 0 {
		f.slow.bytes.Add(-size)
		return false
	}
	mine, at, role := *got, *asked, w.askedAs
	mine.Records = slices.Clone(got.Records) // valid until the next fetch only
	w.busy = true
	f.slow.workers.Go(func() {
		f.slow.slots <- struct{}{}
		f.take(w, role, &at, &mine, now)
		<-f.slow.slots
		f.slow.bytes.Add(-size)
		f.settled(w)
	})
	return true
}

// settled has a partition asked for again.
func (f *fetcher) settled(w *pulling) {
	f.mu.Lock()
	f.mu.settled = append(f.mu.settled, w)
	f.mu.Unlock()
	f.hurry()
}

// waitsForDisk tells whether an answer makes a log sync anything.
func waitsForDisk(log *logstore.Log, got *FollowerResult) bool {
	if got.DivergingEpoch >= 0 || errors.Is(got.Err, logstore.ErrOffsetOutOfRange) {
		return true
	}
	first, _, err := record.Next(got.Records)
	return err == nil && len(got.Records) > 0 && first.LeaderEpoch() > log.LeaderEpoch()
}
