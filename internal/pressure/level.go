package pressure

import "errors"

// ErrRejected is the error of a produce request of a client to a broker with level Reject.
var ErrRejected = errors.New("the volume of the broker is almost full")

// Level is the storage pressure of a broker. Each level includes the effects of the lower ones.
type Level int32

// The levels, from the lowest to the highest.
const (
	// None: the broker works without limits.
	None Level = iota
	// Warn: the LogCluster reports the broker in its condition StoragePressure.
	Warn
	// Clean: the cleaner reclaims as much as it can, whatever the dirty ratios are.
	Clean
	// Reject: produce requests of clients are refused with a retriable error, and no new replicas
	// are assigned to the broker. Replication and internal topics continue.
	Reject
	// Reserve: nothing is appended any more. The remaining space is for the cleaner, which needs
	// space to free space.
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

// ParseLevel returns the level with a name, and None for every other text, such as a level of a
// newer version.
func ParseLevel(name string) Level {
	for level, known := range names {
		if name == known {
			return Level(level)
		}
	}
	return None
}

// Hysteresis is by how many percentage points the used share must fall below the threshold of a
// level before the level ends. Without it, a broker would alternate between two levels while its
// volume is as full as a threshold.
const Hysteresis = 2

// Thresholds are the used shares of a volume, in percent, from which the levels apply.
// 0 < Warn <= Clean <= Reject <= 100.
type Thresholds struct {
	Warn, Clean, Reject int
}

// Default returns the thresholds of a LogCluster that sets none.
func Default() Thresholds { return Thresholds{Warn: 80, Clean: 85, Reject: 92} }

// Volume is a measurement of a volume. If the size is unknown, Total is 0 or less.
type Volume struct {
	Total int64 // size in bytes
	Free  int64 // bytes that the broker can still write; 0 <= Free <= Total
}

// UsedPercent returns the used share in percent, 0 to 100. Space that is reserved for privileged
// processes counts as used, because the broker cannot write to it.
func (v Volume) UsedPercent() float64 {
	if v.Total <= 0 {
		return 0
	}
	return 100 * float64(v.Total-v.Free) / float64(v.Total)
}

// Reserve returns the free space in bytes at which level Reserve begins: that of two segments,
// because the cleaner writes a rewritten segment next to its source. It is at most half of the
// space above the threshold Reject. Otherwise replication to a small volume would end before
// clients are refused: by default a segment has up to 1 GiB, and a volume 10 GiB.
func (t Thresholds) Reserve(v Volume, segmentBytes int64) int64 {
	if v.Total <= 0 {
		return 0
	}
	above := int64(float64(v.Total) * float64(100-t.Reject) / 100)
	return max(0, min(2*segmentBytes, above/2))
}

// Next returns the level after a measurement. Parameter current is the level before it, and reserve
// the result of Thresholds.Reserve. The level of a volume of unknown size is None.
func (t Thresholds) Next(current Level, v Volume, reserve int64) Level {
	if v.Total <= 0 {
		return None
	}
	leaveReserve := reserve
	if current >= Reserve {
		leaveReserve += v.Total * Hysteresis / 200
	}
	if v.Free <= leaveReserve {
		return Reserve
	}
	used := v.UsedPercent()
	for _, step := range []struct {
		level     Level
		threshold int
	}{{Reject, t.Reject}, {Clean, t.Clean}, {Warn, t.Warn}} {
		threshold := float64(step.threshold)
		if current >= step.level {
			threshold -= Hysteresis
		}
		if used >= threshold {
			return step.level
		}
	}
	return None
}

// Slack returns the number of bytes after which level Reject begins, or from Reject on the number
// of bytes after which level Reserve begins. It is not negative.
func (t Thresholds) Slack(current Level, v Volume, reserve int64) int64 {
	if current >= Reject {
		return max(0, v.Free-reserve)
	}
	return max(0, v.Free-int64(float64(v.Total)*float64(100-t.Reject)/100))
}
