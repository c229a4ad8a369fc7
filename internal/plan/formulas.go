package plan

import "math"

// dirtyAt returns how large the dirty section of a log is when a pass becomes due: dirty / (clean +
// dirty) = ratio, which is Kafka's min.cleanable.dirty.ratio (I4). 0 <= ratio < 1.
func dirtyAt(ratio, clean float64) float64 { return clean * ratio / (1 - ratio) }

// liveFraction returns the live fraction u of the segments that a cleaner rewrites, if it keeps the
// share of garbage in the log at g and updates are uniform: the solution of g = 1 - (1-u)/(-ln u).
// 0 < g < 1.
//
// A segment's live fraction falls from 1 to u as exp(-t) while the log is written, so -ln u is its
// life and (1-u)/(-ln u) the mean over it. The right side falls as u rises, from 1 at u = 0 to 0 at
// u = 1, so bisection finds u.
func liveFraction(g float64) float64 {
	low, high := 0.0, 1.0
	for range 200 { // each step halves the error; at g = 0.99 the solution is 4e-44
		u := (low + high) / 2
		if garbage := 1 - (1-u)/-math.Log(u); garbage > g {
			low = u
		} else {
			high = u
		}
	}
	return (low + high) / 2
}

// rewrites returns how many records are rewritten for each one appended, at a live fraction of u:
// u/(1-u). A segment that is rewritten makes room for 1-u of itself, and costs u.
func rewrites(u float64) float64 { return u / (1 - u) }

// shares is what becomes of the batches of a log in one pass, as shares of its records.
type shares struct {
	dead  float64 // in batches without a live record: skipped unread
	whole float64 // in batches without a dead one: copied as they are
	live  float64 // live records, wherever they are
}

// mixed is in batches that have both: they are decompressed, filtered and compressed again.
func (s shares) mixed() float64 { return max(0, 1-s.dead-s.whole) }

// uniformPass returns what a pass finds in a log of clean records, one a key, and dirty ones behind
// them, each a random one of the same keys; a batch has n records.
//
// A record survives if none of the x updates behind it hits its key: s = exp(-x/keys). For the
// clean section x is all of dirty; in the dirty section it falls from there to 0, over which the
// shares are integrated. A batch dies with (1-s)^n, and lives whole with s^n (F8). Updates are
// taken as independent of each other also within a batch.
func uniformPass(clean, dirty, n float64) shares {
	n = max(1, math.Floor(n))
	all, t := clean+dirty, dirty/clean
	s := math.Exp(-t)
	return shares{
		dead:  clean * (math.Pow(1-s, n) + deadIntegral(t, n)) / all,
		whole: clean * (math.Pow(s, n) + (1-math.Exp(-n*t))/n) / all,
		live:  clean / all, // the latest of each key, wherever it stands
	}
}

// deadIntegral is the integral of (1 - exp(-x))^n over x from 0 to t: t - sum of (1-exp(-t))^k / k
// for k from 1 to n, as (1 - e)^n = (1 - e)^(n-1) - e (1 - e)^(n-1), and the integral of the latter
// is (1-exp(-t))^n / n.
func deadIntegral(t, n float64) float64 {
	sum, power := t, 1.0
	for k := 1.0; k <= n; k++ {
		power *= 1 - math.Exp(-t)
		sum -= power / k
	}
	return max(0, sum) // the difference of two equals, up to rounding, when nothing dies
}

// What a sidecar takes (docs/format/keys.md), in bytes.
const (
	sidecarEntryBytes  = 16.0 // a record with a key
	sidecarRecordBytes = 2.0  // a record: length and flags
	sidecarBatchBytes  = 14.0 // a batch
	sidecarBucketBytes = 8.0  // a bucket of entries
	sidecarBucket      = 192  // entries in one: 128 to 256
	// sidecarLeastBytes is the size of a stored record below which sidecars are made for a pass and
	// removed after it (F11).
	sidecarLeastBytes = 100
	// sidecarMakes is what is written to make a sidecar: a spool of the same entries in the order
	// of the log, and the sorted file.
	sidecarMakes = 2
)

// sidecarPerRecord returns the bytes of a sidecar for each record, in batches of n.
func sidecarPerRecord(n float64) float64 {
	return sidecarEntryBytes + sidecarRecordBytes + sidecarBatchBytes/n +
		sidecarBucketBytes/sidecarBucket
}

// What a pass holds in memory, beside the buffers of one batch (docs/cleaner.md).
const (
	slotBytes   = 24.0 // of a key in the table of a slice
	tableLoad   = 0.75 // of its slots, at most
	bitmapShare = 0.5  // of the budget is for bitmaps; the table has the rest
)

// windows returns how often a pass goes through the sidecars: once, unless the bits for its
// records, one each, or three in a topic with tombstones, take more than their share of the budget.
// Each further window reads the sidecars again.
func windows(records, bitsPerRecord, memory float64) float64 {
	return max(1, math.Ceil(records*bitsPerRecord/8/(bitmapShare*memory)))
}

// slices returns how many slices of the hashes make each one's keys fit the table.
func slices(records, bitmaps, memory float64) float64 {
	table := max(memory-bitmaps, (1-bitmapShare)*memory)
	return max(1, math.Ceil(records/(table/slotBytes*tableLoad)))
}
