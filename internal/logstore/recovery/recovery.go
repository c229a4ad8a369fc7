package recovery

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// recovery recovers one log. After a clean shutdown it reads the checkpoints, the producer snapshot
// and the ends of the index files. After an unclean shutdown it also scans the segments from the
// recovery point on.
type recovery struct {
	Input
	dir       swap.Dir
	snapshots snapshots.Files

	files []swap.File // all segment files in the directory, by base offset
	// handles contains the segments that are open so far, in ascending order. Found contains the
	// same segments.
	handles []*segmentlist.Handle
	// producersAt is the offset of the producer state before the scan. This state includes all
	// batches below the offset.
	producersAt int64
	// activeSnapshot is the encoded producer state at the base offset of the last scanned segment;
	// nil if no segment was scanned.
	activeSnapshot []byte
	producers      producer.State
	aborted        []segment.AbortedTxn // aborted transactions in the segment that is being scanned
	epochs         leaderepoch.Cache
	onDisk         leaderepoch.Cache // content of the epoch file; nil if it is missing or unusable
	epochsUnusable bool              // true if the epoch file is malformed or contradicts the log
	// batchEnd is the end of the previous batch, or the base offset of the batch's segment if there
	// is no previous batch; -1 before the first segment. If a batch has a leader epoch that the
	// epoch file lacks, the epoch is assumed to start at batchEnd; see Log.followLocked.
	batchEnd int64
	// lastKnown is the latest epoch in an epoch file that is not used. It is kept because this
	// epoch may have no batch. Its Epoch is -1 if there is none.
	lastKnown leaderepoch.Entry
}

// run recovers the log. If it fails, it leaves no file open.
//
// The order of the steps matters. The directory is repaired first, because the listed files must be
// the files of the log. Segments below the recovery point are opened before segments above it are
// scanned, because the scan needs the end of the open segments. The producer state is replayed
// between these two steps, because the scan continues this state. Only the final result is stored
// in the log. No lock is needed, because no other goroutine uses the log yet.
func (r *recovery) run() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.refuseOtherFormats(); err != nil {
		return err
	}
	if r.files, err = swap.Repair(r.FS, r.Dir); err != nil {
		return err
	}
	bases, err := r.removeOrphans(swap.BasesOf(r.files))
	if err != nil {
		return err
	}
	if err := r.loadEpochs(); err != nil {
		return err
	}
	scanFrom := len(bases)
	if r.Clean && scanFrom > 0 && r.isTruncated(bases[scanFrom-1]) {
		scanFrom--
	}
	if !r.Clean {
		// The scan begins at the base offset of the segment that contains the recovery point,
		// because only a whole segment can be scanned and its indexes rebuilt. Without a recovery
		// point every segment is scanned.
		scanFrom, _ = slices.BinarySearch(bases, r.Saved.RecoveryPoint+1)
		scanFrom = max(scanFrom-1, 0)
		if scanFrom > 0 && bases[scanFrom] == r.Saved.RecoveryPoint &&
			!r.sealedTo(r.Saved.RecoveryPoint) {
			scanFrom--
		}
	}
	if err := r.open(bases[:scanFrom], bases); err != nil {
		return err
	}
	if err := r.verifyEpochs(); err != nil {
		return err
	}
	if err := r.replay(bases[scanFrom:]); err != nil {
		return err
	}
	if err := r.scan(bases[scanFrom:]); err != nil {
		return err
	}
	if err := r.rebuildTxnIndexes(); err != nil {
		return err
	}
	if err := r.sealRebuilt(); err != nil {
		return err
	}
	if err := r.ensureActive(); err != nil {
		return err
	}
	if err := r.keepSnapshot(); err != nil {
		return err
	}
	return nil
}

// sealedTo reports whether the segment that ends at the offset end was certainly sealed. The
// segment may have been active when its end was synced, and may have been rolled just before the
// crash. In this case the recovery point is the segment's end, but its transaction index was never
// synced and is not reliable. A producer snapshot at the end of the segment proves that the segment
// was sealed, because the snapshot is written after the seal (durability.Disk).
func (r *recovery) sealedTo(end int64) bool {
	return slices.ContainsFunc(r.files, func(f swap.File) bool {
		return f.Kind == swap.SnapshotSuffix && f.Suffix == "" && f.Base == end
	})
}

// open opens segments that were closed cleanly or are below the recovery point. A crash cannot make
// such segments overlap. If two segments overlap anyway, recovery cannot determine which segment is
// correct. The log then stays offline and unchanged until an administrator repairs it.
func (r *recovery) open(bases, all []int64) error {
	for i, base := range bases {
		handle, err := r.openHandle(base, all[i+1:])
		if err != nil {
			return err
		}
		if end := r.end(); end > base {
			err := fmt.Errorf("%w: segment %d begins below the end of the segment before it, %d",
				record.ErrCorrupt, base, end)
			return errors.Join(err, handle.Close())
		}
		r.handles = append(r.handles, handle)
	}
	return nil
}

// end returns the end of the last segment that is open so far, or 0 if no segment is open.
func (r *recovery) end() int64 {
	if len(r.handles) == 0 {
		return 0
	}
	return r.handles[len(r.handles)-1].NextOffset()
}

// replay builds the producer state as of the end of the open segments, and the leader epochs if the
// epoch file is unusable. It starts from the newest snapshot at or below that end, and applies the
// batches after the snapshot.
//
// replay also uses a snapshot between the end of the open segments and the log start. The log will
// not end below its start (ensureActive), so such a snapshot is valid for the recovered log,
// whatever the scan finds. If all segments are lost, this snapshot is the only remaining state of
// the producers.
func (r *recovery) replay(toScan []int64) error {
	limit := r.end()
	if len(toScan) > 0 {
		limit = toScan[0]
	}
	from, err := r.loadSnapshot(max(limit, r.Saved.LogStart))
	if err != nil {
		return err
	}
	r.producersAt = from
	r.producers.SetLogStart(r.logStart())
	for i, h := range r.handles {
		// The last segment and all segments that end above the snapshot are replayed, even very old
		// segments, because a transaction that began in them may still be open.
		needed := i+1 == len(r.handles) || r.handles[i+1].Base() > from
		if !needed && r.onDisk != nil {
			continue
		}
		if err := r.replaySegment(h, from); err != nil {
			return fmt.Errorf("replay segment %d: %w", h.Base(), err)
		}
	}
	return nil
}

// logStart returns the recovered log's start: the saved log start, or the first segment's base
// offset if that is higher.
func (r *recovery) logStart() int64 {
	if bases := swap.BasesOf(r.files); len(bases) > 0 {
		return max(r.Saved.LogStart, bases[0])
	}
	return r.Saved.LogStart
}

// replaySegment reads the batch headers of a segment. It applies the batches at or above the offset
// from to the producer state. If the leader epochs have to be rebuilt, it applies all batches to
// the leader epochs.
func (r *recovery) replaySegment(h *segmentlist.Handle, from int64) error {
	position := int64(0)
	if r.onDisk != nil {
		var err error
		if position, err = h.Position(from); err != nil {
			return err
		}
	}
	if r.batchEnd < 0 {
		r.batchEnd = h.Base()
	}
	for {
		header, err := h.HeaderAt(position)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.onDisk == nil {
			r.epochs = r.epochs.Assign(header.LeaderEpoch(), r.batchEnd)
			r.batchEnd = header.LastOffset() + 1
		}
		if header.BaseOffset() >= from {
			// The batch was not written after the file's modification time. So a producer may
			// expire too late, but never too early.
			if _, err := snapshots.Replay(&r.producers, h, header, h.ModTime()); err != nil {
				return err
			}
		}
		position += int64(header.SizeBytes)
	}
}

// loadSnapshot loads the newest usable producer snapshot at or below the offset limit, and returns
// the snapshot's offset. It removes later snapshots, because they describe records that the scan
// may remove; the next flush writes new ones.
//
// A snapshot below the first segment is ignored, unless there is no segment. The batches between
// such a snapshot and the first segment are deleted, so the snapshot would yield an incomplete
// state of some producers. An incomplete state is worse than no state, because the producer's next
// batch would be rejected.
func (r *recovery) loadSnapshot(limit int64) (from int64, err error) {
	bases := swap.BasesOf(r.files)
	for _, f := range slices.Backward(r.files) {
		if f.Kind != swap.SnapshotSuffix || f.Suffix != "" || len(bases) > 0 && f.Base < bases[0] {
			continue
		}
		name := filepath.Join(r.Dir, f.Name)
		content, err := r.FS.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read producer snapshot: %w", err)
		}
		state, err := producer.Decode(content, f.Base)
		if errors.Is(err, producer.ErrVersion) {
			return 0, fmt.Errorf("read %s: %w", f.Name, err)
		}
		if f.Base <= limit {
			if err == nil {
				r.producers = state
				return f.Base, nil
			}
			r.Logger.Warn("malformed producer snapshot removed", "partition", r.ID,
				"file", f.Name)
		}
		if err := r.FS.Remove(name); err != nil {
			return 0, fmt.Errorf("remove producer snapshot: %w", err)
		}
	}
	return 0, nil
}

// scan checks segments batch by batch. The log ends at the first corrupt batch, or at the first gap
// between segments (ADR 0015). The segments after this end are deleted, the last one first, because
// the next start must be able to recover the log after an interrupted scan.
func (r *recovery) scan(bases []int64) error {
	if len(bases) > 0 && bases[0] < r.end() {
		return fmt.Errorf("%w: segment %d begins below the end of the segment before it, %d",
			record.ErrCorrupt, bases[0], r.end())
	}
	config := r.Segments
	config.Synced = r.Saved.RecoveryPoint
	for i, base := range bases {
		if end := r.end(); i > 0 && base != end &&
			(base < end || r.Saved.RecoveryPoint >= 0 && base > r.Saved.RecoveryPoint) {
			return r.drop(bases[i:],
				fmt.Errorf("segment %d does not begin at the end of the segment before it, %d",
					base,
					end))
		}
		r.aborted = nil
		r.activeSnapshot = r.producers.Encode(base)
		if r.batchEnd = base; len(r.handles) > 0 {
			r.batchEnd = min(base, r.end())
		}
		s, found, err := segment.Recover(r.FS, r.Dir, base, config, r.visit)
		if err != nil {
			return err
		}
		r.handles = append(r.handles, r.dir.HandleOf(s))
		if err := s.ResetAborted(r.aborted); err != nil {
			return err
		}
		if found.TruncatedBytes > 0 {
			r.Logger.Warn("log truncated at the first corrupt batch", "partition", r.ID,
				"segment", base, "offset", s.NextOffset(), "bytes", found.TruncatedBytes,
				"cause", found.Cause)
			return r.drop(bases[i+1:], found.Cause)
		}
	}
	return nil
}

// visit applies a scanned batch to the producer state and the leader epochs. The producer snapshot
// already includes each batch below producersAt. If visit applied such a batch again, the producer
// would be reset to an older sequence number, and its next batch would be rejected as out of order.
func (r *recovery) visit(b record.Batch) error {
	// Batches below the log start are ignored, because a truncation may have removed their epochs
	// from the epoch file.
	if r.onDisk == nil || b.LastOffset() >= r.Saved.LogStart {
		r.epochs = r.epochs.Assign(b.LeaderEpoch(), r.batchEnd)
	}
	r.batchEnd = b.NextOffset()
	if b.BaseOffset() < r.producersAt {
		return nil
	}
	ended, err := r.producers.Update(b, r.Now)
	if ended != nil && ended.Aborted {
		r.aborted = append(r.aborted, ended.AbortedTxn)
	}
	return err
}

// drop deletes the segments after the end of the log, because new records will use their offsets.
func (r *recovery) drop(bases []int64, cause error) error {
	for _, base := range slices.Backward(bases) {
		r.Logger.Warn("deleted a segment above the log end", "partition", r.ID,
			"segment", base, "cause", cause)
		if err := segment.RemoveFiles(r.FS, r.Dir, base, ""); err != nil {
			return err
		}
	}
	if len(bases) == 0 {
		return nil
	}
	return r.FS.SyncDir(r.Dir)
}

// sealRebuilt makes the rebuilt indexes of all segments except the active one durable. The recovery
// point on disk may be above these segments, and then the next start opens them without a scan. If
// the disk is full, the caller queues the segments, and a later flush seals them.
func (r *recovery) sealRebuilt() error {
	for i, h := range r.handles {
		if i+1 == len(r.handles) || !h.NeedsSeal() {
			continue
		}
		if err := h.Seal(); err != nil && !segmentlist.IsTemporary(err) {
			return err
		}
	}
	return nil
}

// keepSnapshot writes a snapshot of the producer state at the active segment's base offset, if the
// scan has computed that state. The snapshot is needed because loadSnapshot has removed the
// snapshots above the start of the scan, and retention may delete the segments below before a roll
// writes the next snapshot.
//
// If the disk is full, the log opens without the snapshot. The snapshot is also omitted if the
// segment below the active one could not be sealed, because the snapshot would prove that this
// segment is sealed (sealedTo).
func (r *recovery) keepSnapshot() error {
	last := len(r.handles) - 1
	active := r.handles[last].Base()
	if r.activeSnapshot == nil || r.producersAt >= active || r.producers.Len() == 0 || last > 0 &&
		r.handles[last-1].NeedsSeal() {
		return nil
	}
	err := r.snapshots.Write(active, r.activeSnapshot)
	if errors.Is(err, syscall.ENOSPC) {
		r.Logger.Warn("failed to write a producer snapshot: disk full", "partition",
			r.ID, "error", err)
		return nil
	}
	return err
}

// ensureActive ensures that an active segment exists, and that the log does not end below its
// start. The records below the log start were deleted after consumers could read them. The next
// append must not reuse one of their offsets.
func (r *recovery) ensureActive() error {
	if len(r.handles) > 0 && r.end() >= r.Saved.LogStart {
		return nil
	}
	var failed []error
	for _, h := range r.handles {
		failed = append(failed, h.Remove(), h.Close())
	}
	r.handles = nil
	if err := errors.Join(failed...); err != nil {
		return err
	}
	active, err := r.dir.Create(r.Saved.LogStart,
		r.Active)
	if err != nil {
		return err
	}
	r.handles = []*segmentlist.Handle{active}
	// Open transactions are discarded. Their batches are deleted, and their markers may never
	// arrive, for example after an interrupted StartAt.
	r.producers.ForgetOpen()
	// This state also replaces an existing snapshot in which these transactions are open.
	r.activeSnapshot, r.producersAt = r.producers.Encode(r.Saved.LogStart), -1
	// The name of the new segment is durable before any append. Otherwise a crash could lose the
	// name of the first segment and keep the name of the second segment. Recovery detects gaps only
	// between segments, so it would not detect the loss of the first segment (ADR 0015, 0070).
	return r.FS.SyncDir(r.Dir)
}

// Input is the information about a log that exists before the log is recovered.
type Input struct {
	ID     checkpoint.PartitionID
	FS     vfs.FS
	Dir    string
	Logger *slog.Logger
	// Segments is the configuration of existing segments, and Active is the configuration of a new
	// segment.
	Segments, Active segment.Config
	// Saved is the log's state in the checkpoints; the log may contradict parts of it.
	Saved checkpoint.State
	Clean bool // true if the store was closed cleanly, and nothing has to be scanned
	// Closed is the summary that the clean shutdown wrote; empty after an unclean shutdown.
	Closed        checkpoint.ClosedLog
	AllSummarized bool // true if Closed summarizes every segment without a transaction index
	Now           time.Time
}

// Found is the state of a log that recovery has found. The caller installs it, or closes the
// handles. Each saved offset is limited to the range of the log
// (docs/internals/format/checkpoints.md).
type Found struct {
	Handles                      []*segmentlist.Handle
	LogStart, HighWatermark, End int64
	Producers                    producer.State // producer state as of End
	// Ended contains the ended transactions whose marker is at or above the high watermark.
	Ended  []producer.EndedTxn
	Epochs leaderepoch.Cache
	// EpochsOnDisk is the content of the epoch file; nil if it is missing or unusable.
	EpochsOnDisk   leaderepoch.Cache
	EpochsUnusable bool
}

// Run recovers a log. If it fails, it leaves no file open.
func Run(in Input) (Found, error) {
	files := swap.Dir{FS: in.FS, Path: in.Dir, Config: in.Segments, Logger: in.Logger}
	r := recovery{Input: in, dir: files, snapshots: snapshots.New(files), batchEnd: -1}
	if err := r.run(); err != nil {
		return Found{}, err
	}
	found, err := r.found()
	if err != nil {
		return Found{}, errors.Join(err, r.close())
	}
	return found, nil
}

// close closes the segments that are open so far.
func (r *recovery) close() (err error) {
	for _, h := range r.handles {
		err = errors.Join(err, h.Close())
	}
	return err
}

// found returns the result.
func (r *recovery) found() (Found, error) {
	end := r.end()
	start := max(r.Saved.LogStart, r.handles[0].Base())
	found := Found{Handles: r.handles, LogStart: start, End: end,
		HighWatermark: min(max(r.Saved.HighWatermark, start), end),
		Epochs: r.epochs.Assign(r.lastKnown.Epoch,
			r.lastKnown.Start).TruncateEnd(end).TruncateFront(start),
		EpochsOnDisk: r.onDisk, EpochsUnusable: r.epochsUnusable}
	ended, err := r.decided(found.HighWatermark, end)
	if err != nil {
		return Found{}, err
	}
	r.producers.Expire(r.Now)
	r.producers.SetLogStart(start)
	found.Producers, found.Ended = r.producers, ended
	return found, nil
}
