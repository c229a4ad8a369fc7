package compress

import (
	"errors"
	"fmt"
)

// Codec is the compression codec of a record batch. Its values are Kafka's numbers (batch
// attributes, bits 0 to 2).
type Codec int8

// These are the codecs of record batch v2. The numbers 5 to 7 are invalid.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// LevelDefault selects the codec's default level. It is below every codec's range, because 0 and -1
// are valid zstd levels.
const LevelDefault = -1 << 31

// These are the errors of Decompress. Callers treat them differently: corrupt bytes contain no
// records, but a batch that is too large may be valid and must be kept.
var (
	ErrCorrupt  = errors.New("corrupt compressed data")
	ErrTooLarge = errors.New("decompressed data exceeds the limit")
)

// codecs contains the properties of each codec. The index is the codec's number. standard is the
// default level, and 0 for a codec without levels.
var codecs = [...]struct {
	name                      string
	lowest, highest, standard int
}{
	None:   {name: "none"},
	Gzip:   {name: "gzip", lowest: 1, highest: 9, standard: 6},
	Snappy: {name: "snappy"},
	LZ4:    {name: "lz4", lowest: 1, highest: 17, standard: lz4Fast},
	Zstd:   {name: "zstd", lowest: -131072, highest: 22, standard: 3},
}

// ParseCodec returns the codec with the given name: none, gzip, snappy, lz4, zstd.
func ParseCodec(name string) (Codec, error) {
	for number, codec := range codecs {
		if codec.name == name {
			return Codec(number), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: must be one of none, gzip, snappy, lz4, zstd", name)
}

// String returns the codec's name.
func (c Codec) String() string {
	if !c.Valid() {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return codecs[c].name
}

// Valid reports whether c is one of the five codecs.
func (c Codec) Valid() bool { return c >= 0 && int(c) < len(codecs) }

// Levels returns the codec's range of levels and its default; ok is false for a codec without
// levels.
func (c Codec) Levels() (lowest, highest, standard int, ok bool) {
	if !c.Valid() || codecs[c].standard == 0 {
		return 0, 0, 0, false
	}
	return codecs[c].lowest, codecs[c].highest, codecs[c].standard, true
}

// CheckLevel returns an error unless level is LevelDefault or in the codec's range. The error names
// the range.
func (c Codec) CheckLevel(level int) error {
	if level == LevelDefault {
		return nil
	}
	lowest, highest, _, ok := c.Levels()
	if !ok {
		return fmt.Errorf("%s level %d: %s takes no level", c, level, c)
	}
	if level < lowest || level > highest {
		return fmt.Errorf("%s level %d: must be %d to %d", c, level, lowest, highest)
	}
	return nil
}
