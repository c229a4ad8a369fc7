package topicconfig

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/compress"
)

// Reset gives one setting the value it has in base, the settings of a topic that sets nothing. A
// name that is unknown has none to lose: tools delete what they have not set
// (kafka-reassign-partitions its throttles), and Kafka lets them.
func (s *Settings) Reset(name string, base Settings) {
	switch {
	case name == compressionType:
		s.KeepCodec, s.Codec, s.CodecLevel = base.KeepCodec, base.Codec, base.CodecLevel
	case strings.HasPrefix(name, "compression."):
		if s.KeepCodec || name != "compression."+s.Codec.String()+".level" {
			return // another codec's, which has no effect
		}
		s.CodecLevel = compress.LevelDefault
		if !base.KeepCodec && base.Codec == s.Codec {
			s.CodecLevel = base.CodecLevel
		}
	default:
		if row := find(name); row != nil {
			_ = row.set(s, row.get(&base)) // what get shows, set takes: see property
		}
	}
}

// Listed is a property that is a list with some of its values added or taken away. One that is
// there is not added again, nor is one missed that is not.
func (s *Settings) Listed(name, values string, add bool) (string, error) {
	row := find(name)
	switch {
	case row == nil:
		return "", fmt.Errorf("%w %q", ErrUnknownProperty, name)
	case row.kind != "list":
		return "", fmt.Errorf("property %s is no list, so nothing can be added to it or taken away",
			name)
	}
	all := strings.Split(row.get(s), ",")
	for value := range strings.SplitSeq(values, ",") {
		value = strings.TrimSpace(value)
		switch at := slices.Index(all, value); {
		case add && at < 0:
			all = append(all, value)
		case !add && at >= 0:
			all = slices.Delete(all, at, at+1)
		}
	}
	return strings.Join(all, ","), nil
}

// find returns the row of a name, nil if there is none.
func find(name string) *property {
	table := table()
	i, found := slices.BinarySearchFunc(table, name,
		func(p property, name string) int { return strings.Compare(p.name, name) })
	if !found {
		return nil
	}
	return &table[i]
}
