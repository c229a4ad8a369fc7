package clean

import "time"

// followUpShortest is the shortest delay of a pass that only checks whether blocked tombstones have
// become removable.
const followUpShortest = time.Minute

// followUp collects the times of, and the reasons for, the next passes that the log needs. Its
// results are Stats.NextPass and Stats.AwaitsReplicasAt.
type followUp struct {
	stats     *Stats
	progress  CleaningProgress
	retention time.Duration
	// undetermined is set if a tombstone or marker is not removable yet and may become removable,
	// at a time that only a later pass can determine.
	undetermined bool
}

// at requests a pass at t, or earlier if that was already requested.
func (f *followUp) at(t time.Time) {
	if f.stats.NextPass.IsZero() || t.Before(f.stats.NextPass) {
		f.stats.NextPass = t
	}
}

// removable requests a pass for a tombstone or marker at an offset that has been removable on this
// replica since sinceMs. The requested time is one retention after the offset became removable on
// all replicas.
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
