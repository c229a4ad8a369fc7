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

// faultsMax bounds how many faults Check names: the first few tell the story.
const faultsMax = 10

// Ledger is the account of one topic. It holds on to the records it is given: their keys and values
// must not be changed after. An acknowledged record is one that was sent, so what is in acked has
// its value in sent.
type Ledger struct {
	mu struct {
		sync.Mutex
		sent  map[string][][]byte    // every value sent for a key; nil is a tombstone
		acked map[string]*kgo.Record // by key, the acknowledged one of the greatest offset
		all   map[Place]uint64       // every acknowledged record, as its sum
	}
}

// New returns an empty ledger.
func New() *Ledger {
	l := &Ledger{}
	l.mu.sent = map[string][][]byte{}
	l.mu.acked = map[string]*kgo.Record{}
	l.mu.all = map[Place]uint64{}
	return l
}

// Sent notes a record before it goes out.
func (l *Ledger) Sent(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := string(r.Key)
	l.mu.sent[key] = append(l.mu.sent[key], r.Value)
}

// Acknowledged notes a record that the log took. Offset order decides which record of a key is its
// last.
func (l *Ledger) Acknowledged(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all[Place{r.Partition, r.Offset}] = sum(r)
	key := string(r.Key)
	if last, ok := l.mu.acked[key]; !ok || r.Offset > last.Offset {
		l.mu.acked[key] = r
	}
}

// Count is how many records were acknowledged.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.all)
}

// CountAmong is how many of the acknowledged records are among these places.
func (l *Ledger) CountAmong(places map[Place]bool) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := range l.mu.all {
		if places[at] {
			count++
		}
	}
	return count
}

// Keys is how many keys were acknowledged at least once.
func (l *Ledger) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.acked)
}

// Check compares what a reader got, from the beginning to the end of all partitions, with what was
// promised. The error joins the first faults in the order of their text, so two runs with the same
// faults say the same; nil if all is kept.
func (l *Ledger) Check(read []*kgo.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, faults := latest(read)
	for key, promised := range l.mu.acked {
		if err := check(key, promised, last[key], l.mu.sent[key]); err != nil {
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

// latest finds each key's last record in the order of reading, and the places where that order is
// broken.
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

// check compares the last record found of a key with the last one promised.
func check(key string, promised, found *kgo.Record, sent [][]byte) error {
	switch {
	case found == nil && promised.Value == nil:
		return nil // deleted, and the tombstone is gone too
	case found == nil:
		return fmt.Errorf("key %q is lost: offset %d of partition %d was acknowledged", key,
			promised.Offset, promised.Partition)
	case found.Partition != promised.Partition:
		return fmt.Errorf("key %q moved from partition %d to %d", key, promised.Partition,
			found.Partition)
	case found.Offset < promised.Offset && promised.Value == nil:
		return fmt.Errorf("key %q is back: deleted at offset %d, seen at offset %d", key,
			promised.Offset, found.Offset)
	case found.Offset < promised.Offset:
		return fmt.Errorf(
			"key %q lost its latest value: offset %d was acknowledged, seen offset %d",
			key,
			promised.Offset,
			found.Offset,
		)
	case found.Offset == promised.Offset && !same(found.Value, promised.Value):
		return fmt.Errorf("key %q at offset %d holds %q, not %q", key, found.Offset, found.Value,
			promised.Value)
	case !slices.ContainsFunc(sent, func(value []byte) bool { return same(value, found.Value) }):
		return fmt.Errorf("key %q at offset %d holds %q, which was never sent", key, found.Offset,
			found.Value)
	}
	return nil
}

// same tells a tombstone from an empty value, which bytes.Equal does not.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// summary joins faults, faultsMax at most and how many more there are.
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
