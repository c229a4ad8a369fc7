package clean

import "time"

// followUpShortest is the shortest delay of a pass that only checks whether blocked tombstones have
// become removable.
const followUpShortest = time.Minute

// followUp collects when and why the log needs another pass. Its results are Stats.NextPass and
// Stats.AwaitsReplicasAt.
type followUp struct {
	stats     *Stats
	progress  CleaningProgress
	retention time.Duration
	// undetermined: a tombstone or marker may become removable that is not yet, at a time that only
	// a later pass can find out
	undetermined bool
}

// at requests a pass at t, or earlier if that was already requested.
func (f *followUp) at(t time.Time) {
	if f.stats.NextPass.IsZero() || t.Before(f.stats.NextPass) {
		f.stats.NextPass = t
	}
}

// removable requests a pass for a tombstone or marker at an offset that has been removable on this
// replica since sinceMs: one retention after it is removable on all replicas.
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
