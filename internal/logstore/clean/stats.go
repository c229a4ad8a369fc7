package clean

import "time"

// Phase is the current activity of a pass.
type Phase int8

// The phases of a pass, in order. Their names are label values of a metric. Only the scheduler uses
// Idle and Queued, which describe a log without a running pass. Run reports the other four phases.
// Rewriting and Committing alternate: each occurs once per rewrite group.
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
	Phase Phase
	// DoneBytes is the number of bytes of sidecars and segments that the pass has read so far, at
	// most as many as planned. It is less than TotalBytes until the last chosen segment is
	// replaced.
	DoneBytes int64
	// TotalBytes is the number of bytes that the whole pass reads. It starts as an upper bound, and
	// later steps only lower it.
	TotalBytes  int64
	MemoryBytes int64 // bytes in use now
	// ReclaimableBytes is the number of bytes that the pass will still free in the windows measured
	// so far. It is valid if Measured is set.
	ReclaimableBytes int64
	Measured         bool
	Chosen           Chosen
	Stats            Stats // current statistics
}

// Chosen describes the segments that a pass has chosen to rewrite in the windows measured so far.
type Chosen struct {
	Segments                     int
	Bytes                        int64 // bytes that the rewrites read from these segments
	Records, Tombstones, Markers int64 // numbers that the rewrites remove
}

// IOBytes returns the number of bytes that the pass has read and written.
func (s *Stats) IOBytes() int64 {
	return s.SidecarReadBytes + s.SidecarWrittenBytes + s.LogReadBytes + s.LogWrittenBytes
}

// Stats is the result of a pass.
type Stats struct {
	CleanedTo int64 // new first dirty offset: Job.Bound after a success, else Job.FirstDirty
	// TombstoneCleanOffset is the offset below which every tombstone is removable: if the latest
	// record of a key is a tombstone below this offset, the log contains no older record of the
	// key, dead or not. It is at most Job.Bound, and 0 unless the pass succeeded.
	TombstoneCleanOffset int64

	SidecarReadBytes    int64
	SidecarWrittenBytes int64
	LogReadBytes        int64 // bytes read from sources
	LogWrittenBytes     int64 // bytes written to output segments, including discarded segments
	// ReclaimedBytes is the sum, over the groups whose output is smaller than the sources, of the
	// size of the sources minus the size of the output.
	ReclaimedBytes int64

	RecordsRead    int64 // records in all sources that have a sidecar
	RecordsRemoved int64 // records removed by committed rewrites
	// TombstonesRemoved is the part of RecordsRemoved that consists of tombstones whose retention
	// had ended. It does not include superseded tombstones.
	TombstonesRemoved int64
	MarkersRemoved    int64 // part of RecordsRemoved: transaction markers whose retention had ended
	BatchesDecoded    int64 // decoded batches; other batches were copied or skipped

	SegmentsTotal     int
	SegmentsRewritten int // sources that were replaced
	SegmentsUntouched int // sources that were not replaced
	// SegmentsNoSpace is the part of SegmentsUntouched that was chosen, but not rewritten because
	// the disk had too little free space.
	SegmentsNoSpace int
	// OpaqueBatches is the number of batches that were kept unread, because they decompress to more
	// than BatchBytesMax.
	OpaqueBatches int
	// SidecarsRebuilt is the number of sidecars that were rebuilt because they contradicted their
	// segments (F6).
	SidecarsRebuilt int

	GarbageBytes    int64 // garbage that remains below Bound at the end of the pass
	GarbageRecords  int64
	MemoryPeakBytes int64 // includes batch buffers, so it may exceed Limits.MemoryBytes
	// OldestGarbage is the earliest time at which a remaining dead record was superseded; zero if
	// no superseded record remains.
	OldestGarbage time.Time
	// NextPass is the time at which the log needs another pass even if no record is appended. This
	// is the time when the retention of a tombstone or marker ends, when remaining garbage reaches
	// MaxLag, when a record has blocked a tombstone for two retentions, or when producers expire
	// whose empty batches remain. It is zero if no such pass is needed.
	NextPass time.Time
	// AwaitsReplicasAt is the lowest offset of a tombstone or marker that is removable on this replica
	// but above the replicated cleaning progress (Job.CleaningProgress); -1 if no record waits for
	// other replicas. Once the progress exceeds this offset and a further retention has elapsed, the
	// log needs a pass, even if NextPass is later.
	AwaitsReplicasAt int64
	// KeptLastRecord is set if the last record below Bound is a tombstone or marker that must not
	// be removed before more records are appended (I29). The log then needs another pass, even if
	// NextPass is later or zero.
	KeptLastRecord bool
}
