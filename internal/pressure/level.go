package pressure

import "errors"

// ErrRejected is the error for a client's produce request to a broker with level Reject.
var ErrRejected = errors.New("the volume of the broker is almost full")

// Level is a broker's storage pressure level. Each level includes the effects of the lower levels.
type Level int32

// The levels, from the lowest to the highest.
const (
	// None: there is no limit on the broker's work.
	None Level = iota
	// Warn: the LogCluster reports the broker in its condition StoragePressure.
	Warn
	// Clean: the cleaner reclaims as much as it can, whatever the dirty ratios are.
	Clean
	// Reject: clients' produce requests are refused with a retriable error, and no new replicas are
	// assigned to the broker. Replication and internal topics continue.
	Reject
	// Reserve: nothing is appended any more. The remaining space is reserved for the cleaner, which
	// needs space in order to free space.
	Reserve
)

var names = [...]string{"None", "Warn", "Clean", "Reject", "Reserve"}

// String returns the name of the level, such as "Reject".
func (l Level) String() string {
	if l < None || l > Reserve {
		return names[None]
	}
	return names[l]
}

// ParseLevel returns the level with the given name. For any other text, such as a level in a newer
// version, it returns None.
func ParseLevel(name string) Level {
	for level, known := range names {
		if name == known {
			return Level(level)
		}
	}
	return None
}

// Hysteresis is how many percentage points the used share must fall below a level's threshold
// before the level ends. Without it, a broker would alternate between two levels while the used
// share is near a threshold.
const Hysteresis = 2

// Thresholds are the used shares of a volume, in percent, at which the levels begin. 0 < Warn <=
// Clean <= Reject <= 100.
//
// With default thresholds, a level begins only if little space is free too (caps). The reason is
// that 8 % of a 1 TB disk are 80 GB, in which a broker can work for a long time, and that a disk
// shared with other programs is often that full.
type Thresholds struct {
	Warn, Clean, Reject int
	// Exact is the highest level whose threshold a user has set. The levels up to it begin at their
	// used shares, however much space is free. Otherwise a level could begin after a higher level.
	Exact Level
}

// Default returns the thresholds for a LogCluster that sets none.
func Default() Thresholds { return Thresholds{Warn: 80, Clean: 85, Reject: 92} }

// caps contains, for each level, the free space below which the level can begin with a default
// threshold. The space is the larger of a number of bytes and the size of a number of segments.
var caps = [...]struct{ bytes, segments int64 }{
	Warn:   {50 << 30, 16},
	Clean:  {20 << 30, 8},
	Reject: {5 << 30, 4},
}

// Volume is a measurement of a volume. If the size is unknown, Total is 0 or less. Neither field
// includes space that is reserved for privileged processes. df calculates its percentage in the
// same way. Most file systems on development machines reserve 5 %.
type Volume struct {
	Total int64 // size in bytes
	Free  int64 // bytes that the broker can still write; 0 <= Free <= Total
}

// UsedPercent returns the used share in percent, 0 to 100.
func (v Volume) UsedPercent() float64 {
	if v.Total <= 0 {
		return 0
	}
	return 100 * float64(v.Total-v.Free) / float64(v.Total)
}

// share returns a percentage of the volume in bytes.
func (v Volume) share(percent int) int64 {
	return int64(float64(v.Total) * float64(percent) / 100)
}

// Limit returns the free space in bytes at which level Warn, Clean or Reject begins, and how many
// more bytes must be free for the level to end. Parameter segmentBytes is the size of the largest
// segments.
func (t Thresholds) Limit(level Level, v Volume, segmentBytes int64) (free, hysteresis int64) {
	percent := [...]int{Warn: t.Warn, Clean: t.Clean, Reject: t.Reject}[level]
	free, hysteresis = v.share(100-percent), v.share(Hysteresis)
	if level > t.Exact {
		most := max(caps[level].bytes, caps[level].segments*segmentBytes)
		// If the level's share of the volume is below the cap, a quarter of the cap is at least the
		// hysteresis, so both values remain.
		free, hysteresis = min(free, most), min(hysteresis, most/4)
	}
	return free, hysteresis
}

// Reserve returns the free space in bytes at which level Reserve begins. It is the size of two
// segments, because the cleaner writes a rewritten segment next to its source. It is at most half
// of the space in which level Reject applies. Otherwise replication to a small volume could end
// before clients are refused: by default, a segment has up to 1 GiB, and a volume has 10 GiB.
func (t Thresholds) Reserve(v Volume, segmentBytes int64) int64 {
	if v.Total <= 0 {
		return 0
	}
	reject, _ := t.Limit(Reject, v, segmentBytes)
	return max(0, min(2*segmentBytes, reject/2))
}

// Next returns the level after a measurement. Parameter current is the level before the
// measurement. If the volume's size is unknown, the level is None.
func (t Thresholds) Next(current Level, v Volume, segmentBytes int64) Level {
	if v.Total <= 0 {
		return None
	}
	reserve := t.Reserve(v, segmentBytes)
	if current >= Reserve {
		reject, _ := t.Limit(Reject, v, segmentBytes)
		reserve += max(0, min(v.share(Hysteresis)/2, (reject-reserve)/2))
	}
	if v.Free <= reserve {
		return Reserve
	}
	for level := Reject; level > None; level-- {
		limit, hysteresis := t.Limit(level, v, segmentBytes)
		if current >= level {
			limit += hysteresis
		}
		if v.Free <= limit {
			return level
		}
	}
	return None
}

// Slack returns the number of bytes that can be written before level Reject begins. If the current
// level is Reject or higher, it returns the number of bytes until level Reserve begins. The result
// is never negative.
func (t Thresholds) Slack(current Level, v Volume, segmentBytes int64) int64 {
	end := t.Reserve(v, segmentBytes)
	if current < Reject {
		end, _ = t.Limit(Reject, v, segmentBytes)
	}
	return max(0, v.Free-end)
}
