package clean

import "time"

// followUpShortest is the shortest delay before a pass that only checks whether blocked tombstones
// have become removable.
const followUpShortest = time.Minute

// followUp computes when the log needs another pass even if no record is appended. Its results are
// Stats.NextPass, Stats.AwaitsReplicasAt and Stats.KeptLastRecord.
type followUp struct {
	stats     *Stats
	progress  CleaningProgress
	retention time.Duration
	// undetermined is set if a tombstone is not removable yet, and only a later pass can
	// determine when it becomes removable.
	undetermined bool
}

// at requests a pass at time t. The earliest requested time applies.
func (f *followUp) at(t time.Time) {
	if f.stats.NextPass.IsZero() || t.Before(f.stats.NextPass) {
		f.stats.NextPass = t
	}
}

// afterAppend requests a pass after more records are appended; see Stats.KeptLastRecord.
func (f *followUp) afterAppend() { f.stats.KeptLastRecord = true }

// removable requests a pass for a tombstone or marker at an offset that has been removable on this
// replica since sinceMs. The requested time is one retention after the record became removable on
// all replicas. If the record is not removable on all replicas yet, the pass waits for the other
// replicas; see Stats.AwaitsReplicasAt.
func (f *followUp) removable(offset, sinceMs int64) {
	replicatedMs, ok := f.progress.Since(offset)
	if !ok {
		f.undetermined = true
		if f.stats.AwaitsReplicasAt < 0 || offset < f.stats.AwaitsReplicasAt {
			f.stats.AwaitsReplicasAt = offset
		}
		return
	}
	f.at(time.UnixMilli(max(sinceMs, replicatedMs)).Add(f.retention))
}
