// Package leaderepoch holds the leader epochs of a log: which epoch wrote which offsets (Kafka's
// leader epoch cache, KIP-101). It is pure: a Cache is an immutable value.
package leaderepoch

import (
	"cmp"
	"slices"
)

// None is the epoch of a log that has had no leader, and of an offset whose epoch is unknown.
const None = -1

// Entry is one leader epoch of a log.
type Entry struct {
	Epoch int32
	Start int64 // the epoch holds the offsets [Start, Start of the next entry)
}

// Cache is the leader epochs of a log. Entries ascend strictly in epoch and in start offset. It
// never changes: every method that changes it returns another one.
//
// It cannot be derived from the batches: an epoch in which nothing was appended, or whose batches
// were all cleaned away, exists only here and in its file.
type Cache []Entry

// Latest returns the newest epoch, None if there is none.
func (c Cache) Latest() int32 {
	if len(c) == 0 {
		return None
	}
	return c[len(c)-1].Epoch
}

// At returns the epoch of an offset, None if the offset is below the first entry.
func (c Cache) At(offset int64) int32 {
	i, _ := slices.BinarySearchFunc(c, offset+1,
		func(e Entry, o int64) int { return cmp.Compare(e.Start, o) })
	if i == 0 {
		return None
	}
	return c[i-1].Epoch
}

// Assign starts an epoch at an offset. It removes the entries that the new one contradicts: those
// that start later, and one that starts there too, an epoch without a record. An epoch that is not
// newer than the latest changes nothing.
//
// The entries are copied: readers hold the previous cache, and two caches must not append to one
// array.
func (c Cache) Assign(epoch int32, start int64) Cache {
	if epoch <= c.Latest() {
		return c
	}
	return append(slices.Clone(c.Below(start)), Entry{epoch, start})
}

// Below returns the epochs that start below an offset.
func (c Cache) Below(offset int64) Cache {
	kept := len(c)
	for kept > 0 && c[kept-1].Start >= offset {
		kept--
	}
	return c[:kept]
}

// TruncateFront removes the epochs that end at or below the log start; the epoch that holds the log
// start then starts there. The newest epoch always stays, also without any record: the next leader
// must have a later one.
func (c Cache) TruncateFront(logStart int64) Cache {
	first := 0
	for first+1 < len(c) && c[first+1].Start <= logStart {
		first++
	}
	if len(c) == 0 || c[first].Start >= logStart {
		return c[first:]
	}
	moved := slices.Clone(c[first:])
	moved[0].Start = logStart
	return moved
}

// TruncateEnd removes the epochs that start above the log end: their batches are lost. An epoch
// that starts at the log end stays: it is one whose leader has appended nothing yet.
func (c Cache) TruncateEnd(logEnd int64) Cache { return c.Below(logEnd + 1) }

// EndOf answers OffsetForLeaderEpoch (KIP-101, KIP-279) for a log that ends at logEnd: the largest
// epoch that is not above the requested one, and its end offset. Both are -1 if nothing is known:
// the requested epoch is None, or later than all. An epoch below all known ones is returned itself,
// with the start of the first known one as its end.
func (c Cache) EndOf(epoch int32, logEnd int64) (found int32, end int64) {
	if epoch < 0 || epoch > c.Latest() {
		return None, -1
	}
	if epoch == c.Latest() {
		return epoch, logEnd
	}
	next := 0
	for c[next].Epoch <= epoch { // ends: the latest is above
		next++
	}
	if next == 0 {
		return epoch, c[0].Start
	}
	return c[next-1].Epoch, c[next].Start
}

// Contradicts reports whether a batch has another leader epoch than the cache has for its last
// offset. Below the first entry nothing is known and nothing is contradicted.
func (c Cache) Contradicts(epoch int32, lastOffset int64) bool {
	if len(c) == 0 {
		return epoch > None
	}
	return lastOffset >= c[0].Start && c.At(lastOffset) != epoch
}
