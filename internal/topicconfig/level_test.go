package topicconfig

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// TestLevelRangesOfCodecs checks each codec's range of levels (KIP-390).
func TestLevelRangesOfCodecs(t *testing.T) {
	for _, c := range []struct {
		codec, value string
		ok           bool
		level        int
	}{
		{"gzip", "-1", true, compress.LevelDefault},
		{"gzip", "1", true, 1},
		{"gzip", "9", true, 9},
		{"gzip", "0", false, 0},
		{"gzip", "10", false, 0},
		{"lz4", "1", true, 1},
		{"lz4", "17", true, 17},
		{"lz4", "9", true, compress.LevelDefault},
		{"lz4", "0", false, 0},
		{"lz4", "18", false, 0},
		{"zstd", "-131072", true, -131072},
		{"zstd", "-1", true, -1},
		{"zstd", "22", true, 22},
		{"zstd", "3", true, compress.LevelDefault},
		{"zstd", "23", false, 0},
		{"zstd", "-131073", false, 0},
		// -2147483648 is compress.LevelDefault, and users cannot set it.
		{"zstd", "-2147483648", false, 0},
		{"zstd", "high", false, 0},
	} {
		name := "compression." + c.codec + ".level"
		s := Default()
		if err := s.Set("compression.type", c.codec); err != nil {
			t.Fatal(err)
		}
		err := s.Set(name, c.value)
		if (err == nil) != c.ok {
			t.Errorf("%s=%s: got error %v, want success %v", name, c.value, err, c.ok)
			continue
		}
		if c.ok && s.CodecLevel != c.level {
			t.Errorf("%s=%s got level %d, want %d", name, c.value, s.CodecLevel, c.level)
		}
		if c.ok && propertyOf(t, s, name).Value != c.value {
			t.Errorf("%s=%s got printed value %s", name, c.value, propertyOf(t, s, name).Value)
		}
	}
}

// TestLevelOfAnotherCodecIsRejected checks that a level for another codec than the topic's codec is
// rejected, because it would have no effect. That codec's default level is accepted, because it
// changes nothing.
func TestLevelOfAnotherCodecIsRejected(t *testing.T) {
	s := Default()
	err := s.Set("compression.zstd.level", "5")
	if err == nil || !strings.Contains(err.Error(), "compression.type is producer") {
		t.Errorf("got error %v", err)
	}
	for name, standard := range map[string]string{
		"compression.zstd.level": "3", "compression.lz4.level": "9", "compression.gzip.level": "-1",
	} {
		if err := s.Set(name, standard); err != nil {
			t.Errorf("%s=%s: got error %v", name, standard, err)
		}
	}
	if s != Default() {
		t.Errorf("the settings have changed: %+v", s)
	}
}

// TestNewCodecHasItsDefaultLevel checks that the level becomes the new codec's default when the
// codec changes: zstd 19 must not become gzip 19.
func TestNewCodecHasItsDefaultLevel(t *testing.T) {
	s := Default()
	if err := s.SetAll(map[string]string{"compression.type": "zstd",
		"compression.zstd.level": "19"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("compression.type", "zstd"); err != nil || s.CodecLevel != 19 {
		t.Errorf("same codec: got level %d, error %v, want 19", s.CodecLevel, err)
	}
	if err := s.Set("compression.type", "gzip"); err != nil ||
		s.CodecLevel != compress.LevelDefault {
		t.Errorf("another codec: got level %d, error %v, want the default", s.CodecLevel, err)
	}
}
