package compress

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Setting is what our encoder of a codec does with a level. Levels are numbers of other programs'
// encoders (zlib, lz4, zstd); ours have their own knobs, sometimes fewer. Levels with one setting
// give the same bytes.
type Setting struct {
	Level int // asked for, or the codec's default; 0 for a codec without levels
	// the levels that share the setting, Lowest <= Level <= Highest; 0 and 0 without levels
	Lowest, Highest int
	// what works, for people: "zstd better"; empty for None, which encodes nothing
	Encoder string
}

// String is the setting for people: "lz4 high compression with 8 attempts", "zstd best (as levels
// 10 to 22)".
func (s Setting) String() string {
	if s.Lowest == s.Highest {
		return s.Encoder
	}
	return fmt.Sprintf("%s (as levels %d to %d)", s.Encoder, s.Lowest, s.Highest)
}

// Effective returns what Compress does at level, or LevelDefault, which must be one that CheckLevel
// takes. Compress goes by the same tables, so this is what happens and not what should.
func Effective(codec Codec, level int) Setting {
	if level == LevelDefault && codec.Valid() {
		level = codecs[codec].standard
	}
	switch codec {
	case Gzip: // every level is an encoder of its own
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

// lz4Attempts is how many earlier places with the same first bytes the high-compression encoder
// compares before it settles for the longest match. It doubles with each level, as in lz4-java,
// which Kafka's clients and brokers use. There levels 10 to 12 of the native library add a better
// parser, which ours has not, and levels above 12 are 12.
func lz4Attempts(level int) int { return 1 << (level - 1) }

// zstdSpeeds are the library's four encoders and the highest level each stands for, as the library
// itself maps them.
var zstdSpeeds = [...]struct {
	speed   zstd.EncoderLevel
	highest int
}{
	{zstd.SpeedFastest, 2}, {zstd.SpeedDefault, 5}, {zstd.SpeedBetterCompression, 9},
	{zstd.SpeedBestCompression, 22},
}

// zstdSpeed returns the encoder of a level, and the levels it stands for.
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
