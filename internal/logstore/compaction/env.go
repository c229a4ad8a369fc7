package compaction

import (
	"log/slog"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// Env contains the functions and values of a log that its Compaction uses. It is set once, when the
// log is opened.
type Env struct {
	ID       checkpoint.PartitionID
	FS       vfs.FS
	Dir      string
	Logger   *slog.Logger
	Segments segment.Config
	List     *segmentlist.Current
	Offsets  *offsets.Offsets

	TopicID func() datadir.TopicID
	// Settings returns the settings in effect; a change of the settings replaces the pointer.
	Settings func() *topicconfig.Settings
	// Fault returns the error that stopped the log, or nil while the log works.
	Fault func() error
	// Truncations returns the number of truncations since the log was opened.
	Truncations func() int64
	// SealedEnd returns the offset below which segments may be cleaned. SavedStart returns the log
	// start in the checkpoint on disk.
	SealedEnd, SavedStart func() int64
	EpochAt               func(offset int64) int32
	// Producers returns the last batch of each active producer.
	Producers func() map[int64]clean.Producer
	// Flush syncs the log, and Save writes the checkpoints. Their callers hold no lock of the log.
	Flush, Save func() error
	// Roll rolls the active segment if it contains records, and returns the log end.
	Roll func() (end int64, err error)
	// Replace replaces segments. It fails with segmentlist.ErrChanged if the sources are no longer
	// in the log, or if the log was truncated.
	Replace func(truncations int64, sources, cleaned []*segment.Segment) error
	// Record calls store under the log's lock, with the base offset of the first segment. It fails
	// with segmentlist.ErrChanged if the log was truncated.
	Record func(truncations int64, store func(first int64)) error
	// Keep calls do for a segment's handle, and keeps the log's files unchanged meanwhile. It does
	// not call do if the segment is not in the log, and fails if the log has stopped.
	Keep func(s *segment.Segment, do func(h *segmentlist.Handle) error) error
	// Compress returns the function that compresses the records of a pass.
	Compress func() compress.Func
}

// EpochBelow returns the leader epoch of the record before an offset. A pass uses it as
// clean.Job.Lineage.
func (e *Env) EpochBelow(offset int64) uint64 { return uint64(e.EpochAt(offset - 1)) }
