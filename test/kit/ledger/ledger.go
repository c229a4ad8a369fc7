package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// faultsMax is the maximum number of faults in an error.
const faultsMax = 10

// Ledger stores the sent and the acknowledged records of one topic. It keeps the records that are
// passed to it, so their keys and values must not change afterwards. Every acknowledged record was
// also sent, so the values in acked are also in sent.
type Ledger struct {
	mu struct {
		sync.Mutex
		sent  map[string][][]byte    // every sent value, by key; nil is a tombstone
		acked map[string]*kgo.Record // acknowledged record with the greatest offset, by key
		all   map[Position]uint64    // hash of every acknowledged record, by position
	}
}

// New returns an empty ledger.
func New() *Ledger {
	l := &Ledger{}
	l.mu.sent = map[string][][]byte{}
	l.mu.acked = map[string]*kgo.Record{}
	l.mu.all = map[Position]uint64{}
	return l
}

// Sent stores a record that will be sent. It must be called before the record is sent.
func (l *Ledger) Sent(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := string(r.Key)
	l.mu.sent[key] = append(l.mu.sent[key], r.Value)
}

// Acknowledged stores an acknowledged record. A key's record with the greatest offset is the key's
// last one.
func (l *Ledger) Acknowledged(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all[Position{r.Partition, r.Offset}] = hashOf(r)
	key := string(r.Key)
	if last, ok := l.mu.acked[key]; !ok || r.Offset > last.Offset {
		l.mu.acked[key] = r
	}
}

// Count returns the number of acknowledged records.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.all)
}

// CountAt returns the number of acknowledged records at the given positions.
func (l *Ledger) CountAt(positions map[Position]bool) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for position := range l.mu.all {
		if positions[position] {
			count++
		}
	}
	return count
}

// Keys returns the number of keys with an acknowledged record.
func (l *Ledger) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.acked)
}

// Check compares the acknowledged records with the records that a reader has read from all
// partitions, from start to end. The error contains the first faults in alphabetical order, so two
// runs with the same faults return the same error. It is nil if there are no faults.
func (l *Ledger) Check(read []*kgo.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, faults := latest(read)
	for key, acked := range l.mu.acked {
		if err := check(key, acked, last[key], l.mu.sent[key]); err != nil {
			faults = append(faults, err)
		}
	}
	for key := range last {
		if _, known := l.mu.sent[key]; !known {
			faults = append(faults, fmt.Errorf("key %q was never sent", key))
		}
	}
	return summary(faults)
}

// latest returns each key's last record in the order of reading. It also returns a fault for each
// record whose offset is not above the previous offset in the partition.
func latest(read []*kgo.Record) (map[string]*kgo.Record, []error) {
	last := map[string]*kgo.Record{}
	next := map[int32]int64{}
	var faults []error
	for _, r := range read {
		if r.Offset < next[r.Partition] {
			faults = append(faults,
				fmt.Errorf("partition %d: offset %d came after offset %d", r.Partition, r.Offset,
					next[r.Partition]-1))
		}
		next[r.Partition] = r.Offset + 1
		last[string(r.Key)] = r
	}
	return last, faults
}

// check compares two records of a key: the last acknowledged record, and the last record that the
// reader found.
func check(key string, acked, found *kgo.Record, sent [][]byte) error {
	switch {
	case found == nil && acked.Value == nil:
		return nil // the key was deleted, and the cleaner has removed the tombstone
	case found == nil:
		return fmt.Errorf("key %q is lost: offset %d of partition %d was acknowledged", key,
			acked.Offset, acked.Partition)
	case found.Partition != acked.Partition:
		return fmt.Errorf("key %q moved from partition %d to %d", key, acked.Partition,
			found.Partition)
	case found.Offset < acked.Offset && acked.Value == nil:
		return fmt.Errorf("deleted key %q has returned: deleted at offset %d, found at offset %d",
			key,
			acked.Offset, found.Offset)
	case found.Offset < acked.Offset:
		return fmt.Errorf(
			"key %q lost its latest value: offset %d was acknowledged, found offset %d",
			key,
			acked.Offset,
			found.Offset,
		)
	case found.Offset == acked.Offset && !same(found.Value, acked.Value):
		return fmt.Errorf("key %q at offset %d holds %q, not %q", key, found.Offset, found.Value,
			acked.Value)
	case !slices.ContainsFunc(sent, func(value []byte) bool { return same(value, found.Value) }):
		return fmt.Errorf("key %q at offset %d holds %q, which was never sent", key, found.Offset,
			found.Value)
	}
	return nil
}

// same reports whether two values are equal. Unlike bytes.Equal, it distinguishes nil, which is a
// tombstone, from an empty value.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// summary returns an error with at most faultsMax faults, and with the number of further faults.
func summary(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if more := len(faults) - faultsMax; more > 0 {
		faults = append(faults[:faultsMax], fmt.Errorf("and %d more", more))
	}
	return errors.Join(faults...)
}
