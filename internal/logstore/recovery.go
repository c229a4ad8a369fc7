package logstore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// recovery recovers one log. After a clean shutdown it reads checkpoints, the producer snapshot and
// the ends of index files; after an unclean one it also scans the segments from the recovery point
// on.
type recovery struct {
	log *Log
	// the state in the checkpoints; the log may contradict parts of it
	saved checkpointState
	clean bool // the store was closed orderly: nothing has to be scanned
	now   time.Time
	// summary that the clean shutdown wrote; empty after an unclean one
	closed        checkpoint.ClosedLog
	allSummarized bool // closed has every segment without a transaction index

	files   []segmentFile // of the directory, by base
	handles []*handle     // opened so far, ascending; published by install
	// producersAt is the offset of the producer state before the scan: the state includes all
	// batches below it
	producersAt int64
	// activeSnapshot is the snapshot at the base of the last scanned segment; nil if none was
	// scanned
	activeSnapshot []byte
	producers      producer.State
	aborted        []segment.AbortedTxn // of the segment that is scanned or replayed
	epochs         leaderepoch.Cache
	onDisk         leaderepoch.Cache // content of the file; nil if it is unusable
	// batchEnd is the end of the previous batch, or the base of its segment; -1: there is none yet.
	// A leader epoch that is in a batch but not in the epoch file is assumed to start at batchEnd:
	// see Log.followLocked.
	batchEnd int64
	// lastKnown is the latest epoch in a file that is not used, for an epoch without batches;
	// epoch -1: none
	lastKnown leaderepoch.Entry
}

// newLog returns a log whose directory exists; recovery fills it.
func newLog(env environment, id PartitionID, topic TopicID, dir string, config *config) *Log {
	files := segmentDir{fs: env.fs, path: dir, config: env.segments, logger: env.logger}
	l := &Log{id: id, dir: dir, env: env, files: files, snapshots: producerSnapshots{dir: files},
		epochs: leaderEpochs{fs: env.fs, dir: dir}}
	l.compaction.init(l)
	l.stable.undecided = math.MaxInt64
	l.topic.Store(&topic)
	l.config.Store(config)
	l.compaction.sidecars.enable(config.settings.Compact)
	return l
}

// unconfigured returns the settings of a log until Store.Create: nothing is deleted or cleaned.
func unconfigured() topicconfig.Settings {
	s := topicconfig.Default()
	s.Delete, s.Compact = false, false
	return s
}

// run recovers the log. After an error no file is open.
//
// The order matters. The directory is repaired first, so that the listed files are the log.
// Segments below the recovery point are opened before those above it are scanned, because the scan
// needs their end; producers are replayed in between, because the scan continues their state. The
// log gets only the final result; no other goroutine has it yet, so no lock is needed.
func (r *recovery) run() (err error) {
	defer func() {
		if err != nil {
			for _, h := range r.handles {
				err = errors.Join(err, h.Close())
			}
		}
	}()
	if r.files, err = repairDirectory(r.log.env.fs, r.log.dir); err != nil {
		return err
	}
	bases, err := r.removeOrphans(basesOf(r.files))
	if err != nil {
		return err
	}
	if err := r.loadEpochs(); err != nil {
		return err
	}
	scanFrom := len(bases)
	if !r.clean {
		// The scan begins at the base of the segment that holds the recovery point, because only a
		// whole segment can be scanned and get its indexes rebuilt. Without a recovery point
		// everything is scanned.
		scanFrom, _ = slices.BinarySearch(bases, r.saved.recoveryPoint+1)
		scanFrom = max(scanFrom-1, 0)
		if scanFrom > 0 && bases[scanFrom] == r.saved.recoveryPoint &&
			!r.sealedTo(r.saved.recoveryPoint) {
			scanFrom--
		}
	}
	if err := r.open(bases[:scanFrom]); err != nil {
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
	return r.install()
}

// sealedTo reports whether the segment that ends at an offset was certainly sealed. The segment may
// have been active when its end was synced, and rolled just before the crash: then the recovery
// point is its end, but its transaction index was never synced and is not reliable. The snapshot at
// the end of a segment proves that it was sealed, because it is written afterwards (Log.seal).
func (r *recovery) sealedTo(end int64) bool {
	return slices.ContainsFunc(r.files, func(f segmentFile) bool {
		return f.kind == snapshotSuffix && f.suffix == "" && f.base == end
	})
}

// open opens segments that were closed orderly or are below the recovery point. A crash cannot make
// them overlap, and recovery cannot determine which of two overlapping segments is right. The log
// then stays offline and unchanged until an operator repairs it.
func (r *recovery) open(bases []int64) error {
	for _, base := range bases {
		s, err := r.openSegment(base)
		if err != nil {
			return err
		}
		if end := r.end(); end > base {
			err := fmt.Errorf("%w: segment %d begins below the end of the one before it, %d",
				record.ErrCorrupt, base, end)
			return errors.Join(err, s.Close())
		}
		r.handles = append(r.handles, r.log.files.handleOf(s))
	}
	return nil
}

// end returns the end of the segments that are open so far, 0 before the first one.
func (r *recovery) end() int64 {
	if len(r.handles) == 0 {
		return 0
	}
	return r.handles[len(r.handles)-1].NextOffset()
}

// replay builds the producer state (and the epochs, if they are unknown) as of the end of the open
// segments: from the newest snapshot that is not above that end, and the batches behind the
// snapshot. A snapshot between the end of the open segments and the log start is used too. The log
// does not end below its start (ensureActive), so such a snapshot describes the log as it will be,
// whatever the scan finds; and if all segments are lost, it is the only record of the producers.
func (r *recovery) replay(toScan []int64) error {
	limit := r.end()
	if len(toScan) > 0 {
		limit = toScan[0]
	}
	from, err := r.loadSnapshot(max(limit, r.saved.logStart))
	if err != nil {
		return err
	}
	r.producersAt = from
	for i, h := range r.handles {
		// The last segment and all that end above the snapshot are replayed, however old they are:
		// a transaction that began in them may still be open.
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

// replaySegment reads a segment's headers. It applies batches from offset from on to the producer
// state, and all batches to the leader epochs if those have to be rebuilt.
func (r *recovery) replaySegment(h *handle, from int64) error {
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
			// The modification time of the file is not earlier than the write of the batch, so a
			// producer may be kept too long, but is never removed too early.
			if _, err := replayHeader(&r.producers, h, header, h.ModTime()); err != nil {
				return err
			}
		}
		position += int64(header.SizeBytes)
	}
}

// loadSnapshot loads the newest usable producer snapshot at or below limit, and returns its offset.
// It removes later snapshots, because they describe records that the scan may remove; the next
// flush writes new ones. A snapshot below the first segment is ignored if there are segments: the
// batches behind it are deleted, and an incomplete state of a producer is worse than none, because
// its next batch would be rejected.
func (r *recovery) loadSnapshot(limit int64) (from int64, err error) {
	bases := basesOf(r.files)
	for _, f := range slices.Backward(r.files) {
		if f.kind != snapshotSuffix || f.suffix != "" || len(bases) > 0 && f.base < bases[0] {
			continue
		}
		name := filepath.Join(r.log.dir, f.name)
		if f.base <= limit {
			content, err := r.log.env.fs.ReadFile(name)
			if err != nil {
				return 0, fmt.Errorf("read producer snapshot: %w", err)
			}
			if state, err := producer.Decode(content, f.base); err == nil {
				r.producers = state
				return f.base, nil
			}
			r.log.env.logger.Warn("malformed producer snapshot removed", "partition", r.log.id,
				"file",
				f.name)
		}
		if err := r.log.env.fs.Remove(name); err != nil {
			return 0, fmt.Errorf("remove producer snapshot: %w", err)
		}
	}
	return 0, nil
}

// scan checks segments batch by batch. The log ends at the first bad batch, or at the first gap
// (ADR 0015); the segments behind it are deleted from the back, so that the next start continues
// correctly after an interrupted scan.
func (r *recovery) scan(bases []int64) error {
	if len(bases) > 0 && bases[0] < r.end() {
		return fmt.Errorf("%w: segment %d begins below the end of the one before it, %d",
			record.ErrCorrupt, bases[0], r.end())
	}
	config := r.log.env.segments
	config.Synced = r.saved.recoveryPoint
	for i, base := range bases {
		if end := r.end(); i > 0 && base != end &&
			(base < end || r.saved.recoveryPoint >= 0 && base > r.saved.recoveryPoint) {
			return r.drop(bases[i:],
				fmt.Errorf("segment %d does not join the one before it, which ends at %d", base,
					end))
		}
		r.aborted = nil
		r.activeSnapshot = r.producers.Encode(base)
		if r.batchEnd = base; len(r.handles) > 0 {
			r.batchEnd = min(base, r.end())
		}
		s, found, err := segment.Recover(r.log.env.fs, r.log.dir, base, config, r.visit)
		if err != nil {
			return err
		}
		r.handles = append(r.handles, r.log.files.handleOf(s))
		if err := s.ResetAborted(r.aborted); err != nil {
			return err
		}
		if found.TruncatedBytes > 0 {
			r.log.env.logger.Warn("log truncated at the first corrupt batch", "partition", r.log.id,
				"segment", base,
				"offset", s.NextOffset(), "bytes", found.TruncatedBytes, "cause", found.Cause)
			return r.drop(bases[i+1:], found.Cause)
		}
	}
	return nil
}

// visit applies a scanned batch. A batch below producersAt is in the snapshot already: applying it
// again would reset its producer to an older sequence, and the producer's next batch would be
// rejected as out of order.
func (r *recovery) visit(b record.Batch) error {
	if r.onDisk == nil || b.LastOffset() >= r.saved.logStart { // see verifyEpochs
		r.epochs = r.epochs.Assign(b.LeaderEpoch(), r.batchEnd)
	}
	r.batchEnd = b.NextOffset()
	if b.BaseOffset() < r.producersAt {
		return nil
	}
	ended, err := r.producers.Update(b, r.now)
	if ended != nil && ended.Aborted {
		r.aborted = append(r.aborted, ended.AbortedTxn)
	}
	return err
}

// drop deletes the segments behind the end of the log, because new records will get their offsets.
func (r *recovery) drop(bases []int64, cause error) error {
	for _, base := range slices.Backward(bases) {
		r.log.env.logger.Warn("deleted a segment above the log end", "partition", r.log.id,
			"segment", base, "cause", cause)
		if err := segment.RemoveFiles(r.log.env.fs, r.log.dir, base, ""); err != nil {
			return err
		}
	}
	if len(bases) == 0 {
		return nil
	}
	return r.log.env.fs.SyncDir(r.log.dir)
}

// sealRebuilt makes the rebuilt indexes of all segments but the active one durable: the recovery
// point on disk may be above these segments, and then the next start opens them without a scan. On
// a full disk the segments are queued for a flush that can seal them (install).
func (r *recovery) sealRebuilt() error {
	for i, h := range r.handles {
		if i+1 == len(r.handles) || !h.NeedsSeal() {
			continue
		}
		if err := h.Seal(); err != nil && !isTemporary(err) {
			return err
		}
	}
	return nil
}

// keepSnapshot writes the producer state at the base of the active segment, if the scan passed it.
// Snapshots above the beginning of the scan are removed (loadSnapshot), and retention may delete
// the segments from which the state was built before a roll writes a snapshot. On a full disk the
// log opens without the snapshot. The snapshot is also omitted if the segment below could not be
// sealed, because it would prove that the segment is sealed (sealedTo).
func (r *recovery) keepSnapshot() error {
	last := len(r.handles) - 1
	active := r.handles[last].Base()
	if r.activeSnapshot == nil || r.producersAt >= active || r.producers.Len() == 0 || last > 0 &&
		r.handles[last-1].NeedsSeal() {
		return nil
	}
	err := r.log.snapshots.write(active, r.activeSnapshot)
	if errors.Is(err, syscall.ENOSPC) {
		r.log.env.logger.Warn("failed to write a producer snapshot: disk full", "partition",
			r.log.id, "error",
			err)
		return nil
	}
	return err
}

// ensureActive makes sure that there is an active segment, and that the log does not end below its
// start: records below it were deleted, and the next append must not get an offset that consumers
// have passed.
func (r *recovery) ensureActive() error {
	if len(r.handles) > 0 && r.end() >= r.saved.logStart {
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
	active, err := r.log.files.create(r.saved.logStart,
		r.log.config.Load().indexes(r.log.env.segments))
	if err != nil {
		return err
	}
	r.handles = []*handle{active}
	// Open transactions are discarded: their batches are deleted, and their markers may never
	// arrive, for example after an interrupted StartAt.
	r.producers.ForgetOpen()
	// this state also replaces a snapshot in which these transactions are open
	r.activeSnapshot, r.producersAt = r.producers.Encode(r.saved.logStart), -1
	// The name of the new segment is durable before any append. If a crash lost the name of the
	// first segment and kept that of the second, nothing would show that the log once began below:
	// recovery finds gaps between segments only (ADR 0015, 0070).
	return r.log.env.fs.SyncDir(r.log.dir)
}

// install stores the result in the log, and limits each saved offset to the range of the log
// (docs/format/checkpoints.md).
func (r *recovery) install() error {
	l := r.log
	end := r.end()
	start := max(r.saved.logStart, r.handles[0].Base())
	if r.saved.recoveryPoint > end || r.clean && r.saved.highWatermark > end {
		// Synced records are missing. The loss cannot be repaired here, so it is logged.
		l.env.logger.Warn("log ends below its recovery point or high watermark: the disk lost data",
			"partition", l.id,
			"end", end,
			"recoveryPoint", r.saved.recoveryPoint, "highWatermark", r.saved.highWatermark)
	}
	epochs := r.epochs.Assign(r.lastKnown.Epoch,
		r.lastKnown.Start).TruncateEnd(end).TruncateFront(start)
	l.epochs.cache.Store(&epochs)
	// The file is also written if no epoch is left: otherwise an epoch that started above the end
	// would reappear, and would include records that are appended at those offsets later.
	if !slices.Equal(epochs, r.onDisk) {
		if err := l.epochs.save(epochs); err != nil {
			return err
		}
	}
	l.logStart.Store(start)
	l.logEnd.Store(end)
	l.highWatermark.Store(min(max(r.saved.highWatermark, start), end))
	r.producers.Expire(r.now)
	l.mu.producers = r.producers
	l.stable.settle(&l.mu.producers, nil, l.highWatermark.Load())
	if err := r.restoreDecided(); err != nil {
		return err
	}
	l.compaction.restore(r.saved, start, end)
	// Records that a scan has read are durable: segment.Recover syncs. But indexes that did not fit
	// onto a full disk wait for a flush that can seal their segment, and so does the recovery
	// point.
	recoveryPoint := end
	var rolled []unsealed
	for i, h := range r.handles[:len(r.handles)-1] {
		if h.NeedsSeal() {
			rolled = append(rolled, unsealed{segment: h, end: r.handles[i+1].Base()})
			recoveryPoint = rolled[0].segment.Base()
		}
	}
	if active := r.handles[len(r.handles)-1]; active.Unsynced() {
		// the next flush syncs the tail that could not be rewritten
		recoveryPoint = min(recoveryPoint, active.Base())
	}
	l.disk.start(recoveryPoint, r.saved.recoveryPoint, rolled)
	if active := r.handles[len(r.handles)-1]; active.SizeBytes() > 0 {
		l.mu.firstAppend = r.now
		if first, ok := active.FirstTimestamp(); ok && first > 0 && first < r.now.UnixMilli() {
			l.mu.firstAppend = time.UnixMilli(first)
		}
	}
	l.publishLocked(r.handles)
	return nil
}
