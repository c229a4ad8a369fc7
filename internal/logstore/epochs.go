package logstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// epochEntry says at which offset a leader epoch begins.
type epochEntry struct {
	epoch int32
	start int64 // the epoch holds [start, start of the next entry)
}

// epochCache is a log's history of leader epochs, immutable. Entries ascend strictly in epoch and
// in start.
//
// It is not a summary of the batches: an epoch in which nothing was appended, or whose batches were
// all cleaned away, stands only here and in its file (reference I33).
type epochCache []epochEntry

// latest returns the newest epoch, -1 if there is none.
func (c epochCache) latest() int32 {
	if len(c) == 0 {
		return -1
	}
	return c[len(c)-1].epoch
}

// at returns the epoch of an offset, -1 if it lies below the first entry.
func (c epochCache) at(offset int64) int32 {
	i, _ := slices.BinarySearchFunc(c, offset+1,
		func(e epochEntry, o int64) int { return cmp.Compare(e.start, o) })
	if i == 0 {
		return -1
	}
	return c[i-1].epoch
}

// assign begins an epoch at an offset. Entries it contradicts (later start, or same start and lower
// epoch: an epoch without a record) go. An epoch that is not newer than the latest changes nothing.
// The list is copied: readers hold the one before, and two that are extended must not share an
// array.
func (c epochCache) assign(epoch int32, start int64) epochCache {
	if epoch <= c.latest() {
		return c
	}
	kept := len(c)
	for kept > 0 && c[kept-1].start >= start {
		kept--
	}
	return append(slices.Clone(c[:kept]), epochEntry{epoch, start})
}

// truncateFront drops history below the log start; the epoch in which the log start lies then
// begins there. The newest epoch always stays, also when no record of it is left: the next leader
// must have a later one.
func (c epochCache) truncateFront(logStart int64) epochCache {
	first := 0
	for first+1 < len(c) && c[first+1].start <= logStart {
		first++
	}
	if len(c) == 0 || c[first].start >= logStart {
		return c[first:]
	}
	moved := slices.Clone(c[first:])
	moved[0].start = logStart
	return moved
}

// truncateEnd drops epochs that begin above the log end: their batches are lost. One that begins at
// the end stays, as Lead made it.
func (c epochCache) truncateEnd(logEnd int64) epochCache {
	kept := len(c)
	for kept > 0 && c[kept-1].start > logEnd {
		kept--
	}
	return c[:kept]
}

// encode writes the leader-epoch-checkpoint file (docs/format/checkpoints.md).
func (c epochCache) encode() []byte {
	lines := make([]string, len(c))
	for i, e := range c {
		lines[i] = strconv.FormatInt(int64(e.epoch), 10) + " " + strconv.FormatInt(e.start, 10)
	}
	return encodeCheckpoint(lines)
}

// decodeEpochs reads a leader-epoch-checkpoint file. It fails with errCheckpoint also for entries
// that do not ascend, which lookups rely on.
func decodeEpochs(content []byte) (epochCache, error) {
	lines, err := decodeCheckpoint(content)
	if err != nil {
		return nil, err
	}
	var c epochCache
	for _, line := range lines {
		if len(line) != 2 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 2", errCheckpoint, len(line))
		}
		epoch, err := strconv.ParseInt(line[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: epoch %q", errCheckpoint, line[0])
		}
		start, err := strconv.ParseInt(line[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: start offset %q", errCheckpoint, line[1])
		}
		if start < 0 || epoch < 0 || len(c) > 0 &&
			(epoch <= int64(c.latest()) || start <= c[len(c)-1].start) {
			return nil, fmt.Errorf("%w: epoch %d at %d is out of order", errCheckpoint, epoch,
				start)
		}
		c = append(c, epochEntry{int32(epoch), start})
	}
	return c, nil
}
