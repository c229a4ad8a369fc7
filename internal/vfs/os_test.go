package vfs

import "testing"

// TestSizeExcludesReservedBlocks checks a filesystem with 1000 blocks, of which 50 are reserved and
// 780 are used. Its used share must be 780/950, as df shows, and not 830/1000.
func TestSizeExcludesReservedBlocks(t *testing.T) {
	for _, test := range []struct{ blocks, free, available, want uint64 }{
		{1000, 220, 170, 950},
		{1000, 220, 220, 1000},
		{1000, 30, 0, 970},   // privileged processes have used some of the reserved blocks
		{1000, 10, 20, 1000}, // inconsistent
	} {
		if got := usableBlocks(test.blocks, test.free, test.available); got != test.want {
			t.Errorf("%+v: %d blocks", test, got)
		}
	}
	size, err := OS{}.Size(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	free, err := OS{}.Free(t.TempDir())
	if err != nil || size == 0 || free > size {
		t.Errorf("size %d, free %d, error %v", size, free, err)
	}
}
