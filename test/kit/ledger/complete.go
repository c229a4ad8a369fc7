package ledger

import (
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Position is the position of a record in a topic.
type Position struct {
	Partition int32
	Offset    int64
}

// hashSeed is the seed of all hashes: they are compared within one process only.
var hashSeed = maphash.MakeSeed()

// hashOf returns a hash of the key and the value of an acknowledged record, because a ledger may
// hold millions.
func hashOf(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	fmt.Fprintf(&h, "%d %t ", len(r.Key), r.Value == nil)
	_, _ = h.Write(r.Key)
	_, _ = h.Write(r.Value)
	return h.Sum64()
}

// CheckComplete is Check for a topic that is neither compacted nor truncated: every acknowledged
// record is at the offset of its acknowledgement, and the records of each key are in the order in
// which they were sent, each once. A record that was sent and not acknowledged may be there or not.
func (l *Ledger) CheckComplete(read []*kgo.Record) error {
	if err := l.Check(read); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return summary(append(l.missingLocked(read), l.disorderedLocked(read)...))
}

// missingLocked finds acknowledged records that are missing or different.
func (l *Ledger) missingLocked(read []*kgo.Record) (faults []error) {
	found := make(map[Position]*kgo.Record, len(read))
	for _, r := range read {
		found[Position{r.Partition, r.Offset}] = r
	}
	for at, acked := range l.mu.all {
		switch r := found[at]; {
		case r == nil:
			faults = append(faults,
				fmt.Errorf("offset %d of partition %d was acknowledged and is lost", at.Offset,
					at.Partition))
		case hashOf(r) != acked:
			faults = append(
				faults,
				fmt.Errorf(
					"offset %d of partition %d holds another record than the acknowledged one",
					at.Offset,
					at.Partition,
				),
			)
		}
	}
	return faults
}

// disorderedLocked finds records that are duplicated, or before an earlier record of their key, by
// comparing each key's records with those that were sent. Equal values of a key are
// indistinguishable, so each record read is matched with the earliest possible one.
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
					"key %q: the record at offset %d of partition %d is a duplicate, or is after one that was sent later",
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
