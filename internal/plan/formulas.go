package plan

import "math"

// dirtyAt returns the size of the dirty section at which a pass is due, that is, at which dirty /
// (clean + dirty) = ratio. The ratio is Kafka's min.cleanable.dirty.ratio (I4); 0 <= ratio < 1.
func dirtyAt(ratio, clean float64) float64 { return clean * ratio / (1 - ratio) }

// liveFraction returns the fraction u of live records in the segments that a cleaner rewrites, if
// it keeps the fraction of garbage in the log at g and updates are uniform. u is the solution of g
// = 1 - (1-u)/(-ln u); 0 < g < 1.
//
// With the time t in units of keys updates, the live fraction of a segment decreases as exp(-t),
// from 1 when it is written to u when it is rewritten. So the segment exists for a time of -ln u,
// and its mean live fraction is (1-u)/(-ln u). The right side of the equation decreases from 1 at u
// = 0 to 0 at u = 1, so bisection finds u.
func liveFraction(g float64) float64 {
	low, high := 0.0, 1.0
	// each step halves the error; 200 steps suffice even for g = 0.99, where u is 4e-44
	for range 200 {
		u := (low + high) / 2
		if garbage := 1 - (1-u)/-math.Log(u); garbage > g {
			low = u
		} else {
			high = u
		}
	}
	return (low + high) / 2
}

// rewrites returns the number of rewritten records per appended record, if segments are rewritten
// at a live fraction of u. A rewrite writes the fraction u of a segment and reclaims the fraction
// 1-u, so the result is u/(1-u).
func rewrites(u float64) float64 { return u / (1 - u) }

// shares contains fractions of a log's records, by how a pass treats their batches.
type shares struct {
	dead  float64 // records in batches without live records: a pass skips them without reading
	whole float64 // records in batches without dead records: a pass copies them unchanged
	live  float64 // live records, in any batch
}

// mixed returns the fraction of records in batches with both live and dead records, which a pass
// decompresses, filters and recompresses.
func (s shares) mixed() float64 { return max(0, 1-s.dead-s.whole) }

// uniformPass returns the shares of a log. The log starts with a clean section, which contains one
// record per key. A dirty section follows, whose keys are uniformly random keys of the clean
// section. The parameters clean and dirty are the numbers of records in the two sections. A batch
// has n records.
//
// A record is live if none of the x dirty records after it has its key; the probability of this is
// s = exp(-x/keys). In the clean section x = dirty. In the dirty section x decreases to 0, so the
// shares are integrals over x. A batch is dead with probability (1-s)^n, and contains no dead
// record with probability s^n (F8). Updates are assumed to be independent, even within a batch.
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

// deadIntegral returns the integral of (1 - exp(-x))^n over x from 0 to t. With e = exp(-x), (1 -
// e)^n = (1 - e)^(n-1) - e (1 - e)^(n-1), and the integral of the last term is (1-exp(-t))^n / n.
// By induction, the result is t - sum of (1-exp(-t))^k / k for k from 1 to n.
func deadIntegral(t, n float64) float64 {
	sum, power := t, 1.0
	for k := 1.0; k <= n; k++ {
		power *= 1 - math.Exp(-t)
		sum -= power / k
	}
	return max(0, sum) // if almost no batch is dead, rounding may produce a negative value
}

// Sizes of a sidecar (docs/internals/format/keys.md), in bytes.
const (
	sidecarEntryBytes  = 16.0 // per record with a key
	sidecarRecordBytes = 2.0  // per record, for its length and flags
	sidecarBatchBytes  = 14.0 // per batch
	sidecarBucketBytes = 8.0  // per bucket of entries
	sidecarBucket      = 192  // mean number of entries per bucket; the actual number is 128 to 256
	// sidecarLeastBytes is the minimum mean size of stored records for which sidecars are kept.
	// With smaller records, a pass writes temporary sidecars and deletes them at its end (F11).
	sidecarLeastBytes = 100
	// sidecarMakes is the number of times that the content of a sidecar is written: first as a
	// spool in log order, then as the sorted file.
	sidecarMakes = 2
)

// sidecarPerRecord returns the number of bytes per record in a sidecar, for batches of n records.
func sidecarPerRecord(n float64) float64 {
	return sidecarEntryBytes + sidecarRecordBytes + sidecarBatchBytes/n +
		sidecarBucketBytes/sidecarBucket
}

// Memory of a pass, except the buffers of one batch (docs/internals/cleaner.md).
const (
	slotBytes   = 24.0 // bytes per key in the table of a hash slice
	tableLoad   = 0.75 // maximum load factor
	bitmapShare = 0.5  // fraction of the memory budget for bitmaps; the table may use the rest
)

// windows returns the number of pass windows, and so the number of times that a pass reads the
// sidecars. It is 1 unless the bitmaps of the log exceed their part of the memory budget. The
// bitmaps contain 1 bit per record, or 3 in a topic with tombstones.
func windows(records, bitsPerRecord, memory float64) float64 {
	return max(1, math.Ceil(records*bitsPerRecord/8/(bitmapShare*memory)))
}

// slices returns the number of hash slices that a pass needs so that the keys of each slice fit
// into the table.
func slices(records, bitmaps, memory float64) float64 {
	table := max(memory-bitmaps, (1-bitmapShare)*memory)
	return max(1, math.Ceil(records/(table/slotBytes*tableLoad)))
}
