package plan

import "math"

// dirtyAt returns the size of the dirty section at which a pass is due: dirty / (clean + dirty) =
// ratio, which is Kafka's min.cleanable.dirty.ratio (I4). 0 <= ratio < 1.
func dirtyAt(ratio, clean float64) float64 { return clean * ratio / (1 - ratio) }

// liveFraction returns the live fraction u of the segments that a cleaner rewrites if it keeps the
// fraction of garbage in the log at g and updates are uniform: the solution of
// g = 1 - (1-u)/(-ln u), 0 < g < 1.
//
// While the log is written, a segment's live fraction decreases from 1 to u as exp(-t). So the
// segment's lifetime is -ln u, and the mean live fraction over it is (1-u)/(-ln u). The right side
// decreases from 1 at u = 0 to 0 at u = 1, so bisection finds u.
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

// rewrites returns the number of rewritten records per appended record at a live fraction of u:
// u/(1-u). Rewriting a segment writes the fraction u of it and reclaims 1-u.
func rewrites(u float64) float64 { return u / (1 - u) }

// shares divides the records of a log by what a pass does with their batches, as fractions.
type shares struct {
	dead  float64 // in batches without live records: skipped without reading
	whole float64 // in batches without dead records: copied unchanged
	live  float64 // live records in any batch
}

// mixed returns the fraction in batches with both: decompressed, filtered and recompressed.
func (s shares) mixed() float64 { return max(0, 1-s.dead-s.whole) }

// uniformPass returns the shares of a log with clean records, one per key, followed by dirty
// records with uniformly random keys of the same set; a batch has n records.
//
// A record survives if none of the x records after it has its key: s = exp(-x/keys). For the clean
// section x = dirty; in the dirty section x decreases to 0, and the shares are integrated over it.
// A batch is dead with probability (1-s)^n, and has no dead record with s^n (F8). Updates are
// assumed to be independent, also within a batch.
func uniformPass(clean, dirty, n float64) shares {
	n = max(1, math.Floor(n))
	all, t := clean+dirty, dirty/clean
	s := math.Exp(-t)
	return shares{
		dead:  clean * (math.Pow(1-s, n) + deadIntegral(t, n)) / all,
		whole: clean * (math.Pow(s, n) + (1-math.Exp(-n*t))/n) / all,
		live:  clean / all, // the latest record of each key
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
	return max(0, sum) // rounding may give a negative value if no batch is dead
}

// Sizes of a sidecar (docs/format/keys.md), in bytes.
const (
	sidecarEntryBytes  = 16.0 // per record with a key
	sidecarRecordBytes = 2.0  // per record: length and flags
	sidecarBatchBytes  = 14.0 // per batch
	sidecarBucketBytes = 8.0  // per bucket of entries
	sidecarBucket      = 192  // entries per bucket: 128 to 256
	// sidecarLeastBytes is the size of a stored record below which sidecars are written for a pass
	// and deleted after it (F11).
	sidecarLeastBytes = 100
	// sidecarMakes is the number of times that a sidecar is written: as a spool in log order, and
	// as the sorted file.
	sidecarMakes = 2
)

// sidecarPerRecord returns the size of a sidecar per record, for batches of n records.
func sidecarPerRecord(n float64) float64 {
	return sidecarEntryBytes + sidecarRecordBytes + sidecarBatchBytes/n +
		sidecarBucketBytes/sidecarBucket
}

// Memory of a pass, except the buffers of one batch (docs/cleaner.md).
const (
	slotBytes   = 24.0 // per key in the table of a hash slice
	tableLoad   = 0.75 // maximum load factor
	bitmapShare = 0.5  // fraction of the budget for bitmaps; the table has the rest
)

// windows returns how often a pass reads the sidecars: once, unless the bits for its records, one
// per record or three in a topic with tombstones, exceed their part of the budget.
func windows(records, bitsPerRecord, memory float64) float64 {
	return max(1, math.Ceil(records*bitsPerRecord/8/(bitmapShare*memory)))
}

// slices returns the number of hash slices with which the keys of each slice fit the table.
func slices(records, bitmaps, memory float64) float64 {
	table := max(memory-bitmaps, (1-bitmapShare)*memory)
	return max(1, math.Ceil(records/(table/slotBytes*tableLoad)))
}
