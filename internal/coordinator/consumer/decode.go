package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// reader decodes values in the flexible encoding (KIP-482). It compares the length of a list or a
// string with the number of remaining bytes before it allocates memory.
type reader struct {
	kbin.Reader
}

// read decodes a record's value. It reads the version, which must be valueVersion, and then calls
// fields. It fails if fields leaves bytes unread.
func read(value []byte, fields func(r *reader)) error {
	r := reader{kbin.Reader{Src: value}}
	if version := r.Int16(); r.Ok() && version != valueVersion {
		return fmt.Errorf("%w: unknown value version %d", ErrCorrupt, version)
	}
	fields(&r)
	if err := r.Complete(); err != nil {
		return fmt.Errorf("%w: value: %w", ErrCorrupt, err)
	}
	if len(r.Src) > 0 {
		return fmt.Errorf("%w: %d bytes after the value", ErrCorrupt, len(r.Src))
	}
	return nil
}

// tags reads the tagged fields of a struct. It calls zero with the content of tag 0, which zero
// must read completely. It skips other tags.
func (r *reader) tags(zero func(r *reader)) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		tag := r.Uvarint()
		content := r.Span(int(r.Uvarint()))
		if tag != 0 || zero == nil || !r.Ok() {
			continue
		}
		inner := reader{kbin.Reader{Src: content}}
		if zero(&inner); !inner.Ok() || len(inner.Src) > 0 {
			r.Span(-1) // r.Complete then returns an error
		}
	}
}

func (r *reader) text() string {
	if text := r.CompactNullableString(); text != nil {
		return *text
	}
	return ""
}

func (r *reader) texts() []string {
	var all []string
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		all = append(all, r.CompactString())
	}
	return all
}

func (r *reader) ints() []int32 {
	var all []int32
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		all = append(all, r.Int32())
	}
	return all
}

func readGroup(value []byte) (v groupValue, err error) {
	err = read(value, func(r *reader) {
		v.epoch = r.Int32()
		r.tags(func(r *reader) { v.hash = r.Int64() })
	})
	return v, err
}

// readProfile decodes a member's record. It skips tag 0, which Kafka uses for members that still
// use the classic protocol. Such members must join again.
func readProfile(value []byte) (p Profile, err error) {
	err = read(value, func(r *reader) {
		p.Instance, p.Rack = r.text(), r.text()
		p.ClientID, p.ClientHost = r.CompactString(), r.CompactString()
		p.Topics, p.Expression = distinct(r.texts()), r.text()
		p.Rebalance = time.Duration(max(0, r.Int32())) * time.Millisecond
		p.Assignor = r.text()
		r.tags(nil)
	})
	return p, err
}

// distinct sorts strings and removes duplicates.
func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func readAssignment(value []byte) (v assignmentValue, err error) {
	err = read(value, func(r *reader) {
		v.epoch = r.Int32()
		r.tags(func(r *reader) { v.assignedMs = r.Int64() })
	})
	return v, err
}

func readTarget(value []byte) (a assignor.Assignment, err error) {
	a = assignor.Assignment{}
	err = read(value, func(r *reader) {
		for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
			topic, partitions := r.Uuid(), r.ints()
			r.tags(nil)
			if len(partitions) > 0 {
				partitions = append(a[topic], partitions...)
				slices.Sort(partitions)
				a[topic] = slices.Compact(partitions)
			}
		}
		r.tags(nil)
	})
	return a, err
}

func readCurrent(value []byte) (c Current, err error) {
	err = read(value, func(r *reader) {
		c.Epoch, c.Previous, c.Phase = r.Int32(), r.Int32(), Phase(r.Int8())
		c.Assigned, c.Revoking = r.owned(c.Epoch), r.owned(c.Epoch)
		r.tags(nil)
	})
	return c, err
}

// owned decodes partitions and the epochs in which the member got them. Kafka before 4.3 stores no
// such epochs; then the member's epoch is used.
func (r *reader) owned(epoch int32) Owned {
	owned := Owned{}
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		topic, partitions := r.Uuid(), r.ints()
		var epochs []int32
		r.tags(func(r *reader) { epochs = r.ints() })
		for i, partition := range partitions {
			id := epoch
			if i < len(epochs) {
				id = epochs[i]
			}
			owned.add(topic, partition, id)
		}
	}
	return owned
}

func (o Owned) add(topic assignor.TopicID, partition, epoch int32) {
	if o[topic] == nil {
		o[topic] = map[int32]int32{}
	}
	o[topic][partition] = epoch
}

func readResolved(value []byte) (v Resolved, err error) {
	err = read(value, func(r *reader) {
		v.Topics, v.Version, v.ResolvedMs = distinct(r.texts()), r.Int64(), r.Int64()
		r.tags(nil)
	})
	return v, err
}
