package clean

import "time"

// Phase is the current activity of a pass.
type Phase int8

// The phases, in order. Their names are label values of a metric. Idle and Queued are for the
// scheduler, for a log without a running pass; Run reports the other four. Rewriting and Committing
// alternate, once per rewrite group.
const (
	Idle Phase = iota
	Queued
	Indexing
	Deduplicating
	Rewriting
	Committing
)

// Phases lists all phases, in order.
var Phases = []Phase{Idle, Queued, Indexing, Deduplicating, Rewriting, Committing}

// String returns idle, queued, indexing, deduplicating, rewriting or committing.
func (p Phase) String() string {
	return [...]string{"idle", "queued", "indexing", "deduplicating", "rewriting", "committing"}[p]
}

// PassProgress is a snapshot of a running pass.
type PassProgress struct {
	Phase       Phase
	DoneBytes   int64 // of the whole pass: bytes read of sidecars and logs
	TotalBytes  int64 // an upper bound until the rewrites are chosen; it never rises
	MemoryBytes int64 // in use now
	// ReclaimableBytes is the number of bytes that the pass has still to free; valid if Measured.
	ReclaimableBytes int64
	Measured         bool
	Chosen           Chosen
	Stats            Stats // so far
}

// Chosen describes the segments that a pass has chosen to rewrite, in the windows that it has
// measured so far.
type Chosen struct {
	Segments                     int
	Records, Tombstones, Markers int64 // that will be removed
}

// Stats is the result of a pass.
type Stats struct {
	CleanedTo int64 // the new first dirty offset: Job.Bound after a success, else Job.FirstDirty
	// TombstoneCleanOffset is the offset below which every tombstone is removable: if the latest
	// record of a key is a tombstone below it, the log contains no older record of the key, dead or
	// not. At most Job.Bound; 0 unless the pass succeeded.
	TombstoneCleanOffset int64

	SidecarReadBytes    int64
	SidecarWrittenBytes int64
	LogReadBytes        int64 // of sources
	LogWrittenBytes     int64 // of output, including output that was discarded
	ReclaimedBytes      int64 // source bytes less output bytes, summed over the groups that shrank

	RecordsRead       int64 // records that the pass has decided on, each counted once
	RecordsRemoved    int64 // by committed rewrites
	TombstonesRemoved int64 // of RecordsRemoved: latest records of their keys, past their horizon
	MarkersRemoved    int64 // of RecordsRemoved: transaction markers past their horizon
	BatchesDecoded    int64 // the other batches were copied or skipped

	SegmentsTotal     int
	SegmentsRewritten int // sources that were replaced; 0 after a success: nothing to do
	SegmentsUntouched int // the others
	SegmentsNoSpace   int // of SegmentsUntouched: chosen, but the disk was too full
	OpaqueBatches     int // kept unread: they decompress to more than BatchBytesMax
	SidecarsRebuilt   int // because they contradicted their segments (F6)

	GarbageBytes    int64 // remaining below Bound at the end of the pass; exact
	GarbageRecords  int64
	MemoryPeakBytes int64 // with batch buffers, so it may exceed Limits.MemoryBytes
	// OldestGarbage is the time at which the oldest remaining dead record was superseded; zero if
	// none remains.
	OldestGarbage time.Time
	// NextPass is the earliest time at which another pass can remove a tombstone or marker; zero if
	// the log contains none that will become due.
	NextPass time.Time
	// AwaitsReplicasAt is the lowest offset of a removable tombstone or marker above the replicated
	// cleaning progress (Job.CleaningProgress), -1 if there is none. The log needs a pass one
	// retention after the progress reaches this offset, even if NextPass is later.
	AwaitsReplicasAt int64
}
