// Package leaderepoch represents the leader epochs of a log: which offsets were written in each
// epoch (Kafka's leader epoch cache, KIP-101). The package is pure: a Cache is an immutable value.
package leaderepoch

import (
	"cmp"
	"slices"
)

// None is the leader epoch of an offset whose epoch is unknown. It is also the latest epoch of a
// log that never had a leader.
const None = -1

// Entry is one leader epoch of a log.
type Entry struct {
	Epoch int32
	Start int64 // the epoch contains the offsets [Start, Start of the next entry)
}

// Cache contains the leader epochs of a log. The entries ascend strictly by epoch and by start
// offset. A Cache never changes: a method that adds or removes entries returns another Cache.
//
// A Cache cannot be derived from the batches of the log. An epoch without batches, or an epoch
// whose batches cleaning has removed, exists only in the Cache and, if the epoch was saved, in the
// epoch file.
type Cache []Entry

// Latest returns the latest epoch, or None if the Cache is empty.
func (c Cache) Latest() int32 {
	if len(c) == 0 {
		return None
	}
	return c[len(c)-1].Epoch
}

// At returns the epoch of an offset, or None if the offset is below the first entry.
func (c Cache) At(offset int64) int32 {
	i, _ := slices.BinarySearchFunc(c, offset+1,
		func(e Entry, o int64) int { return cmp.Compare(e.Start, o) })
	if i == 0 {
		return None
	}
	return c[i-1].Epoch
}

// Assign returns the Cache with a new epoch that starts at start. It removes the entries that start
// at or above start, because no record belongs to them any longer. If the epoch is not later than
// the latest epoch, Assign returns the Cache unchanged.
//
// The entries are copied, because readers may use the previous Cache, and two caches must not
// append to the same array.
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

// TruncateFront removes the epochs that end at or below the log start. If the epoch of the log
// start began earlier, its entry afterwards starts at the log start. The latest epoch is never
// removed, even if no record belongs to it, because the next leader epoch must be later.
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

// TruncateEnd removes the epochs that start above the log end, because their batches are lost. An
// epoch that starts at the log end remains, because its leader has not appended a batch yet.
func (c Cache) TruncateEnd(logEnd int64) Cache { return c.Below(logEnd + 1) }

// EndOf returns the result of an OffsetForLeaderEpoch request (KIP-101, KIP-279) for a log that
// ends at logEnd. The result is the latest epoch that is not later than the requested epoch, and
// the end offset of this epoch. Both are -1 if the requested epoch is None or later than all known
// epochs. If the requested epoch is earlier than all known epochs, the result is the requested
// epoch itself and the start offset of the first known epoch.
func (c Cache) EndOf(epoch int32, logEnd int64) (found int32, end int64) {
	if epoch < 0 || epoch > c.Latest() {
		return None, -1
	}
	if epoch == c.Latest() {
		return epoch, logEnd
	}
	next := 0
	for c[next].Epoch <= epoch { // this loop ends, because the latest epoch is later
		next++
	}
	if next == 0 {
		return epoch, c[0].Start
	}
	return c[next-1].Epoch, c[next].Start
}

// Contradicts reports whether a batch's leader epoch differs from the epoch that the Cache contains
// for the batch's last offset. A batch below the first entry contradicts nothing, because its epoch
// is unknown. Every batch with an epoch contradicts an empty Cache.
func (c Cache) Contradicts(epoch int32, lastOffset int64) bool {
	if len(c) == 0 {
		return epoch > None
	}
	return lastOffset >= c[0].Start && c.At(lastOffset) != epoch
}
