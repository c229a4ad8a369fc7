package topicconfig

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/compress"
)

// Reset sets one setting to its value in base, which contains the settings of a topic that sets
// none. It ignores an unknown name, as Kafka does. kafka-reassign-partitions, for example, deletes
// throttles that are not set.
func (s *Settings) Reset(name string, base Settings) {
	switch {
	case name == compressionType:
		s.KeepCodec, s.Codec, s.CodecLevel = base.KeepCodec, base.Codec, base.CodecLevel
	case strings.HasPrefix(name, "compression."):
		if s.KeepCodec || name != "compression."+s.Codec.String()+".level" {
			return // the level of a codec that is not used has no effect
		}
		s.CodecLevel = compress.LevelDefault
		if !base.KeepCodec && base.Codec == s.Codec {
			s.CodecLevel = base.CodecLevel
		}
	default:
		if row := find(name); row != nil {
			// set cannot fail, because it accepts every value that get returns (see property).
			_ = row.set(s, row.get(&base))
		}
	}
}

// Listed returns the value of a list property after values are added or removed. Values to add that
// the list already contains are ignored, as are values to remove that it does not contain.
func (s *Settings) Listed(name, values string, add bool) (string, error) {
	row := find(name)
	switch {
	case row == nil && ignored[name].list:
		return values, nil
	case row == nil:
		return "", fmt.Errorf("%w %q", ErrUnknownProperty, name)
	case row.kind != "list":
		return "", fmt.Errorf("property %s is not a list: it cannot be appended to or subtracted from",
			name)
	}
	all := strings.Split(row.get(s), ",")
	for value := range strings.SplitSeq(values, ",") {
		value = strings.TrimSpace(value)
		switch index := slices.Index(all, value); {
		case add && index < 0:
			all = append(all, value)
		case !add && index >= 0:
			all = slices.Delete(all, index, index+1)
		}
	}
	return strings.Join(all, ","), nil
}

// find returns a property's row, or nil if the property is unknown.
func find(name string) *property {
	table := table()
	i, found := slices.BinarySearchFunc(table, name,
		func(p property, name string) int { return strings.Compare(p.name, name) })
	if !found {
		return nil
	}
	return &table[i]
}
