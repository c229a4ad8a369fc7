package topicconfig

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/compress"
)

// Reset sets one setting to its value in base, the settings of a topic without its own. An unknown
// name is ignored: tools delete what they have not set (kafka-reassign-partitions its throttles),
// and Kafka allows it.
func (s *Settings) Reset(name string, base Settings) {
	switch {
	case name == compressionType:
		s.KeepCodec, s.Codec, s.CodecLevel = base.KeepCodec, base.Codec, base.CodecLevel
	case strings.HasPrefix(name, "compression."):
		if s.KeepCodec || name != "compression."+s.Codec.String()+".level" {
			return // the level of another codec has no effect
		}
		s.CodecLevel = compress.LevelDefault
		if !base.KeepCodec && base.Codec == s.Codec {
			s.CodecLevel = base.CodecLevel
		}
	default:
		if row := find(name); row != nil {
			_ = row.set(s, row.get(&base)) // set accepts every value of get: see property
		}
	}
}

// Listed returns a list property with some values added or removed. Values that are already present
// or absent are ignored.
func (s *Settings) Listed(name, values string, add bool) (string, error) {
	row := find(name)
	switch {
	case row == nil:
		return "", fmt.Errorf("%w %q", ErrUnknownProperty, name)
	case row.kind != "list":
		return "", fmt.Errorf("property %s is not a list: it cannot be appended to or subtracted from",
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

// find returns the row of a property, nil if it is unknown.
func find(name string) *property {
	table := table()
	i, found := slices.BinarySearchFunc(table, name,
		func(p property, name string) int { return strings.Compare(p.name, name) })
	if !found {
		return nil
	}
	return &table[i]
}
