package compressmeter

import (
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

func TestDefaultLevelAndItsNumberAreOneSum(t *testing.T) {
	var meter Meter
	chunks := compress.NewChunks()
	defer chunks.Release()
	for _, level := range []int{compress.LevelDefault, 3} {
		if err := meter.At(SiteClean)(chunks, []byte("abc"), compress.Zstd, level); err != nil {
			t.Fatal(err)
		}
	}
	if err := meter.At(SiteClean)(chunks, []byte("abc"), compress.Snappy,
		compress.LevelDefault); err != nil {
		t.Fatal(err)
	}
	if err := meter.At(SiteClean)(chunks, nil, compress.Zstd, 99); err == nil {
		t.Error("level 99 is accepted")
	}
	sums := map[Kind]Sum{}
	for _, sum := range meter.Sums() {
		sums[sum.Kind] = sum
	}
	if got := sums[Kind{compress.Zstd, 3, SiteClean}]; got.In != 6 || len(sums) != 2 {
		t.Errorf("sums %v", sums)
	}
	// The output consists of the xerial header, the length, and the block.
	if got := sums[Kind{compress.Snappy, 0, SiteClean}]; got.In != 3 || got.Out != 16+4+5 {
		t.Errorf("sum of snappy %v", got)
	}
}
