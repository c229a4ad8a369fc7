package ledger

import (
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Place is where a record lies.
type Place struct {
	Partition int32
	Offset    int64
}

// seed is of the sums of one process: they are compared with one another only.
var seed = maphash.MakeSeed()

// sum stands for key and value of an acknowledged record: a ledger may hold millions.
func sum(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	fmt.Fprintf(&h, "%d %t ", len(r.Key), r.Value == nil)
	_, _ = h.Write(r.Key)
	_, _ = h.Write(r.Value)
	return h.Sum64()
}

// CheckWhole is Check for a topic that nothing is cleaned from: every acknowledged record is where
// it was acknowledged, and each key's records come in the order in which they were sent, each once.
// What was sent and not acknowledged may be there or not.
func (l *Ledger) CheckWhole(read []*kgo.Record) error {
	if err := l.Check(read); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return summary(append(l.missingLocked(read), l.disorderedLocked(read)...))
}

// missingLocked finds acknowledged records that are not there, or are others.
func (l *Ledger) missingLocked(read []*kgo.Record) (faults []error) {
	found := make(map[Place]*kgo.Record, len(read))
	for _, r := range read {
		found[Place{r.Partition, r.Offset}] = r
	}
	for at, promised := range l.mu.all {
		switch r := found[at]; {
		case r == nil:
			faults = append(faults,
				fmt.Errorf("offset %d of partition %d was acknowledged, and is lost", at.Offset,
					at.Partition))
		case sum(r) != promised:
			faults = append(
				faults,
				fmt.Errorf(
					"offset %d of partition %d holds another record than was acknowledged there",
					at.Offset,
					at.Partition,
				),
			)
		}
	}
	return faults
}

// disorderedLocked finds records that come before an earlier one of their key, or twice: it walks
// along what was sent of each key. Equal values of a key cannot be told from one another, so the
// earliest that may be meant is.
func (l *Ledger) disorderedLocked(read []*kgo.Record) (faults []error) {
	next := map[string]int{}
	for _, r := range read {
		key := string(r.Key)
		sent, at := l.mu.sent[key], next[key]
		for at < len(sent) && !same(sent[at], r.Value) {
			at++
		}
		if at == len(sent) {
			faults = append(
				faults,
				fmt.Errorf(
					"key %q: the record at offset %d of partition %d comes twice, or after one that was sent later",
					key,
					r.Offset,
					r.Partition,
				),
			)
			continue
		}
		next[key] = at + 1
	}
	return faults
}
