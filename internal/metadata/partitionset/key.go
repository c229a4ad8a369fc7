package partitionset

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/metadata"
)

// Key identifies a partition by the name of its Topic resource and its index. A Topic that is
// created again has the same keys, so it finds the records that were retained for an earlier Topic.
type Key struct {
	Topic string
	Index int32
}

// String returns the key as it is written in a PartitionSet, for example "orders/3".
func (k Key) String() string { return k.Topic + "/" + strconv.Itoa(int(k.Index)) }

// Compare orders keys by topic and index.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Topic, other.Topic), cmp.Compare(k.Index, other.Index))
}

// ParseKey is the inverse of Key.String.
func ParseKey(text string) (Key, error) {
	topic, number, ok := strings.Cut(text, "/")
	index, err := strconv.ParseInt(number, 10, 32)
	key := Key{topic, int32(index)}
	if !ok || err != nil || topic == "" || index < 0 || key.String() != text {
		return Key{}, fmt.Errorf("parse key %.100q: want TOPIC/PARTITION", text)
	}
	return key, nil
}

// Number returns the index of the set to which a partition belongs, from 0 to count-1. As far as
// possible, a topic's partitions are in different sets.
func Number(key Key, count int32) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key.Topic)) // never fails, according to its documentation
	return int32((uint64(hash.Sum32()) + uint64(key.Index)) % uint64(count))
}

// Indexes returns the indexes, from 0 to partitions-1, of a topic's partitions that belong to the
// set with the given number (see Number).
func Indexes(topic string, number, count, partitions int32) iter.Seq[int32] {
	first := (number - Number(Key{Topic: topic}, count) + count) % count
	return func(yield func(int32) bool) {
		for index := int64(first); index < int64(partitions); index += int64(count) {
			if !yield(int32(index)) {
				return
			}
		}
	}
}

// Tag returns the first characters of a topic id's text. They distinguish a Topic from an earlier
// Topic with the same name.
func Tag(id metadata.ID) string { return id.Tag() }
