package compress

import (
	"strings"
	"testing"
)

func TestCodecNamesRoundTripAndUnknownNamesAreRejected(t *testing.T) {
	for c := None; c <= Zstd; c++ {
		parsed, err := ParseCodec(c.String())
		if err != nil || parsed != c || !c.Valid() {
			t.Errorf("ParseCodec(%q) = %v, %v", c.String(), parsed, err)
		}
	}
	if _, err := ParseCodec("brotli"); err == nil || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("ParseCodec(brotli) = %v, want an error that names the codecs", err)
	}
	for _, c := range []Codec{-1, 5, 6, 7} {
		if c.Valid() {
			t.Errorf("%s is reported as valid", c)
		}
	}
}

func TestLevelRangesAreThoseOfKafka(t *testing.T) { // KIP-390
	for _, tt := range []struct {
		codec   Codec
		level   int
		wantErr string
	}{
		{Gzip, 1, ""}, {Gzip, 9, ""}, {Gzip, 0, "gzip level 0: must be 1 to 9"},
		{Gzip, 10, "gzip level 10: must be 1 to 9"},
		{LZ4, 1, ""}, {LZ4, 17, ""}, {LZ4, 18, "lz4 level 18: must be 1 to 17"},
		{LZ4, 0, "lz4 level 0: must be 1 to 17"},
		{Zstd, -131072, ""}, {Zstd, 0, ""}, {Zstd, 22, ""},
		{Zstd, 23, "zstd level 23: must be -131072 to 22"},
		{Zstd, -131073, "zstd level -131073: must be -131072 to 22"},
		{Snappy, LevelDefault, ""}, {None, LevelDefault, ""}, {Gzip, LevelDefault, ""},
		{Snappy, 1, "snappy level 1: snappy takes no level"},
		{None, 1, "none level 1: none takes no level"},
	} {
		err := tt.codec.CheckLevel(tt.level)
		if got := errorText(err); got != tt.wantErr {
			t.Errorf("%s.CheckLevel(%d) = %q, want %q", tt.codec, tt.level, got, tt.wantErr)
		}
	}
	if _, _, standard, ok := Gzip.Levels(); standard != 6 || !ok {
		t.Errorf("gzip's default level is %d, want 6", standard)
	}
	if _, _, standard, _ := LZ4.Levels(); standard != 9 {
		t.Errorf("lz4's default level is %d, want 9", standard)
	}
	if _, _, standard, _ := Zstd.Levels(); standard != 3 {
		t.Errorf("zstd's default level is %d, want 3", standard)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
