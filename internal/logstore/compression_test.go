package logstore

import (
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

func TestDefaultLevelAndItsNumberAreOneSeries(t *testing.T) {
	var meter compressionMeter
	chunks := compress.NewChunks()
	defer chunks.Release()
	for _, level := range []int{compress.LevelDefault, 3} {
		if err := meter.at(siteClean)(chunks, []byte("abc"), compress.Zstd, level); err != nil {
			t.Fatal(err)
		}
	}
	if err := meter.at(siteClean)(chunks, []byte("abc"), compress.Snappy,
		compress.LevelDefault); err != nil {
		t.Fatal(err)
	}
	if err := meter.at(siteClean)(chunks, nil, compress.Zstd, 99); err == nil {
		t.Error("level 99 is accepted")
	}
	if got := meter.mu.sums[compressionKind{compress.Zstd, 3, siteClean}]; got.in != 6 ||
		len(meter.mu.sums) != 2 {
		t.Errorf("sums %v", meter.mu.sums)
	}
	snappy := compressionKind{compress.Snappy, 0, siteClean}
	// xerial header, length, block
	if got := meter.mu.sums[snappy]; got.in != 3 || got.out != 16+4+5 ||
		snappy.levelLabel() != "none" {
		t.Errorf("sum of snappy %v, level %s", got, snappy.levelLabel())
	}
}
