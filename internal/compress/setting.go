package compress

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Setting describes the encoder setting that is used for a level. Kafka's levels are those of zlib,
// lz4 and zstd. The Go encoders have their own settings, and some settings cover several levels.
// Such levels compress data to the same bytes.
type Setting struct {
	Level int // requested level, or the codec's default level; 0 for a codec without levels
	// Lowest and Highest are the bounds of the levels that share the setting: Lowest <= Level <=
	// Highest. Both are 0 for a codec without levels.
	Lowest, Highest int
	// Encoder is the setting's name for display, such as "zstd better"; empty for None.
	Encoder string
}

// String returns a description for display, such as "lz4 high compression with 8 attempts" or "zstd
// best (as levels 10 to 22)".
func (s Setting) String() string {
	if s.Lowest == s.Highest {
		return s.Encoder
	}
	return fmt.Sprintf("%s (as levels %d to %d)", s.Encoder, s.Lowest, s.Highest)
}

// Effective returns the setting that Compress uses for level, which must be LevelDefault or valid
// according to CheckLevel. Compress uses the same tables.
func Effective(codec Codec, level int) Setting {
	if level == LevelDefault && codec.Valid() {
		level = codecs[codec].standard
	}
	switch codec {
	case Gzip: // each level has its own setting
		return Setting{Level: level, Lowest: level, Highest: level,
			Encoder: fmt.Sprintf("deflate %d", level)}
	case Snappy:
		return Setting{Encoder: "snappy"}
	case LZ4:
		encoder := "lz4 fast"
		if level != lz4Fast {
			encoder = fmt.Sprintf("lz4 high compression with %d attempts", lz4Attempts(level))
		}
		return Setting{Level: level, Lowest: level, Highest: level, Encoder: encoder}
	case Zstd:
		speed, lowest, highest := zstdSpeed(level)
		return Setting{Level: level, Lowest: lowest, Highest: highest,
			Encoder: "zstd " + speed.String()}
	}
	return Setting{}
}

// lz4Attempts returns the search depth of the high-compression encoder: the number of earlier
// positions with the same first bytes that it compares to find the longest match. The number
// doubles with each level, as in lz4-java, which Kafka's clients and brokers use. In the native
// library, levels 10 to 12 add a better parser, which the Go library does not have, and levels
// above 12 equal level 12.
func lz4Attempts(level int) int { return 1 << (level - 1) }

// zstdSpeeds contains the library's four encoders, and the highest level that is mapped to each.
// The library itself maps levels in the same way.
var zstdSpeeds = [...]struct {
	speed   zstd.EncoderLevel
	highest int
}{
	{zstd.SpeedFastest, 2}, {zstd.SpeedDefault, 5}, {zstd.SpeedBetterCompression, 9},
	{zstd.SpeedBestCompression, 22},
}

// zstdSpeed returns the encoder for a level, and the range of levels that use this encoder.
func zstdSpeed(level int) (speed zstd.EncoderLevel, lowest, highest int) {
	lowest = codecs[Zstd].lowest
	for _, s := range zstdSpeeds {
		speed, highest = s.speed, s.highest
		if level <= highest {
			break
		}
		lowest = highest + 1
	}
	return speed, lowest, highest
}
