package compress

import "errors"

// Codec is a record batch's compression, with Kafka's numbers (batch attributes, bits 0 to 2).
type Codec int8

// The codecs of record batch v2. Five to seven are invalid.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// LevelDefault stands for "the codec's default level" wherever a level is asked for.
const LevelDefault = -1 << 31

// Errors of Decompress.
var (
	ErrCorrupt  = errors.New("corrupt compressed data")
	ErrTooLarge = errors.New("decompressed data exceeds the limit")
)

// ParseCodec reads a codec's name: none, gzip, snappy, lz4, zstd.
func ParseCodec(name string) (Codec, error) { panic("unwritten") }

// String returns the codec's name.
func (c Codec) String() string { panic("unwritten") }

// Valid tells whether c is one of the five codecs.
func (c Codec) Valid() bool { panic("unwritten") }

// Levels returns the range of levels the codec takes and its default; ok is false for a codec without levels.
func (c Codec) Levels() (lowest, highest, standard int, ok bool) { panic("unwritten") }

// CheckLevel returns an error that names the allowed range if level (or LevelDefault) is not one of the codec's.
func (c Codec) CheckLevel(level int) error { panic("unwritten") }

// Compress appends src, compressed at level (or LevelDefault), to dst.
func Compress(dst, src []byte, codec Codec, level int) ([]byte, error) { panic("unwritten") }

// Decompress appends src, decompressed, to dst. It fails with ErrTooLarge before it holds more than limit bytes, and with
// ErrCorrupt on bad data.
func Decompress(dst, src []byte, codec Codec, limit int) ([]byte, error) { panic("unwritten") }
