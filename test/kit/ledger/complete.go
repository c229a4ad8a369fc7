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

// hashSeed is the seed of all hashes. It can be random, because hashes are only compared within one
// process.
var hashSeed = maphash.MakeSeed()

// hashOf returns a hash of a record's key and value. A ledger stores the hash instead of the
// record, because there can be millions of acknowledged records.
func hashOf(r *kgo.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	fmt.Fprintf(&h, "%d %t ", len(r.Key), r.Value == nil)
	_, _ = h.Write(r.Key)
	_, _ = h.Write(r.Value)
	return h.Sum64()
}

// CheckComplete is like Check, for a topic that is neither compacted nor truncated. Every
// acknowledged record must be at the offset of its acknowledgement. Each key's records must be in
// the order in which they were sent, without duplicates. A record that was sent but not
// acknowledged can be missing.
func (l *Ledger) CheckComplete(read []*kgo.Record) error {
	if err := l.Check(read); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return summary(append(l.missingLocked(read), l.disorderedLocked(read)...))
}

// missingLocked returns a fault for each acknowledged record that read does not contain or contains
// with different content. The caller holds the lock.
func (l *Ledger) missingLocked(read []*kgo.Record) (faults []error) {
	found := make(map[Position]*kgo.Record, len(read))
	for _, r := range read {
		found[Position{r.Partition, r.Offset}] = r
	}
	for position, acked := range l.mu.all {
		switch r := found[position]; {
		case r == nil:
			faults = append(faults,
				fmt.Errorf("offset %d of partition %d was acknowledged and is lost", position.Offset,
					position.Partition))
		case hashOf(r) != acked:
			faults = append(
				faults,
				fmt.Errorf(
					"offset %d of partition %d holds another record than the acknowledged one",
					position.Offset,
					position.Partition,
				),
			)
		}
	}
	return faults
}

// disorderedLocked returns a fault for each record that is a duplicate, or that follows a record of
// the same key that was sent later. It compares the records of each key with the values that were
// sent. A key's equal values cannot be distinguished, so each record is matched with the earliest
// possible value. The caller holds the lock.
func (l *Ledger) disorderedLocked(read []*kgo.Record) (faults []error) {
	next := map[string]int{}
	for _, r := range read {
		key := string(r.Key)
		sent, index := l.mu.sent[key], next[key]
		for index < len(sent) && !same(sent[index], r.Value) {
			index++
		}
		if index == len(sent) {
			faults = append(
				faults,
				fmt.Errorf(
					"key %q: the record at offset %d of partition %d is a duplicate, or follows a record that was sent later",
					key,
					r.Offset,
					r.Partition,
				),
			)
			continue
		}
		next[key] = index + 1
	}
	return faults
}
