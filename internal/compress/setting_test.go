package compress

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// levelSample returns text that higher levels compress better: words of a small vocabulary, and
// repetitions of every length.
func levelSample() []byte {
	random := rand.New(rand.NewPCG(3, 4))
	var out strings.Builder
	for out.Len() < 60<<10 {
		word := strings.Repeat(string(rune('a'+random.IntN(26))), 1+random.IntN(3)) +
			fmt.Sprint(random.IntN(300))
		if random.IntN(3) > 0 && out.Len() > 5000 {
			from := random.IntN(out.Len() - 200)
			word = out.String()[from : from+random.IntN(60)]
		}
		out.WriteString(word)
	}
	// Write three random letters: hundreds of earlier positions have the same first four bytes.
	for range 12 << 10 {
		out.WriteByte("abc"[random.IntN(3)])
	}
	return []byte(out.String())
}

// everyLevel returns all levels of a codec, but only some of zstd's 131,072 negative ones.
func everyLevel(codec Codec) []int {
	lowest, highest, _, ok := codec.Levels()
	if !ok {
		return []int{LevelDefault}
	}
	levels := []int{LevelDefault, lowest}
	for level := max(lowest, -8); level <= highest; level++ {
		levels = append(levels, level)
	}
	return levels
}

// TestEffectiveMatchesCompress compares Effective with the output of Compress. Levels with the same
// setting must give the same bytes, and levels with different settings must give different bytes.
func TestEffectiveMatchesCompress(t *testing.T) { // KIP-390
	sample := levelSample()
	for codec := None; codec <= Zstd; codec++ {
		byEncoder := map[string][]byte{}
		for _, level := range everyLevel(codec) {
			packed, err := Compress(nil, sample, codec, level)
			if err != nil {
				t.Fatal(err)
			}
			encoder := Effective(codec, level).Encoder
			if first, seen := byEncoder[encoder]; seen && !bytes.Equal(first, packed) {
				t.Errorf("%s level %d: %d bytes, but other levels of %q give %d", codec, level,
					len(packed), encoder, len(first))
			}
			byEncoder[encoder] = packed
		}
		for one, packed := range byEncoder {
			for other, bytesOfOther := range byEncoder {
				if one < other && bytes.Equal(packed, bytesOfOther) && !deepSearch(one) {
					t.Errorf("%q and %q give the same bytes, so they are one setting", one, other)
				}
			}
		}
		want := map[Codec]int{None: 1, Gzip: 9, Snappy: 1, LZ4: 17, Zstd: 4}[codec]
		if len(byEncoder) != want {
			t.Errorf("%s has %d settings, want %d", codec, len(byEncoder), want)
		}
	}
}

// deepSearch reports whether an LZ4 setting compares all earlier positions in the sample that have
// the same first bytes. All such settings give the same bytes.
func deepSearch(encoder string) bool {
	var attempts int
	_, err := fmt.Sscanf(encoder, "lz4 high compression with %d attempts", &attempts)
	return err == nil && attempts >= 128
}

func TestEffectiveNamesLevelAndRange(t *testing.T) {
	for _, tt := range []struct {
		codec Codec
		level int
		want  Setting
		text  string
	}{
		{None, LevelDefault, Setting{}, ""},
		{Snappy, LevelDefault, Setting{Encoder: "snappy"}, "snappy"},
		{Gzip, LevelDefault, Setting{6, 6, 6, "deflate 6"}, "deflate 6"},
		{Gzip, 9, Setting{9, 9, 9, "deflate 9"}, "deflate 9"},
		{LZ4, LevelDefault, Setting{9, 9, 9, "lz4 fast"}, "lz4 fast"},
		{LZ4, 1, Setting{1, 1, 1, "lz4 high compression with 1 attempts"},
			"lz4 high compression with 1 attempts"},
		{LZ4, 17, Setting{17, 17, 17, "lz4 high compression with 65536 attempts"},
			"lz4 high compression with 65536 attempts"},
		{Zstd, LevelDefault, Setting{3, 3, 5, "zstd default"}, "zstd default (as levels 3 to 5)"},
		{Zstd, -131072, Setting{-131072, -131072, 2, "zstd fastest"},
			"zstd fastest (as levels -131072 to 2)"},
		{Zstd, 0, Setting{0, -131072, 2, "zstd fastest"}, "zstd fastest (as levels -131072 to 2)"},
		{Zstd, 9, Setting{9, 6, 9, "zstd better"}, "zstd better (as levels 6 to 9)"},
		{Zstd, 22, Setting{22, 10, 22, "zstd best"}, "zstd best (as levels 10 to 22)"},
	} {
		if got := Effective(tt.codec, tt.level); got != tt.want || got.String() != tt.text {
			t.Errorf("Effective(%s, %d) = %+v, %q", tt.codec, tt.level, got, got)
		}
	}
}

func TestZstdSpeedsAreTheLibrarysOwnMapping(t *testing.T) {
	for _, level := range everyLevel(Zstd)[1:] {
		if speed, lowest, highest := zstdSpeed(level); speed != zstd.EncoderLevelFromZstd(level) ||
			level < lowest || level > highest {
			t.Errorf("level %d: got %s for %d to %d, the library maps it to %s", level, speed,
				lowest, highest,
				zstd.EncoderLevelFromZstd(level))
		}
	}
}

// TestHigherLevelsAreNotLarger compares levels that are far apart, on typical records. Of two
// neighbouring levels, the higher one can give more bytes.
func TestHigherLevelsAreNotLarger(t *testing.T) {
	sample := samples()["64K"]
	for codec, levels := range map[Codec][]int{Gzip: {1, 9}, LZ4: {1, 2, 4, 6, 8, 12, 17},
		Zstd: {1, 19}} {
		before := len(sample)
		for _, level := range levels {
			packed, err := Compress(nil, sample, codec, level)
			if err != nil {
				t.Fatal(err)
			}
			if len(packed) > before {
				t.Errorf("%s level %d: %d bytes, more than the %d of the lower level", codec, level,
					len(packed),
					before)
			}
			before = len(packed)
		}
	}
}
