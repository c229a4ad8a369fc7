package datadir

import (
	"bytes"
	"errors"
	"testing"
)

// TestSealCorrectsOneFlippedBit checks that each flip of one bit, also in the seal itself, is
// corrected or rejected, and that content with two flips never counts as correct.
func TestSealCorrectsOneFlippedBit(t *testing.T) {
	right := seal([]byte("version=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"))
	if got, err := checkSeal(right); err != nil || !bytes.Equal(got, right) {
		t.Fatalf("%q, %v", got, err)
	}
	prefix := bytes.LastIndex(right, []byte("\n"+sealPrefix))
	for bit := range 8 * len(right) {
		flipped := bytes.Clone(right)
		flipped[bit/8] ^= 1 << (bit % 8)
		got, err := checkSeal(flipped)
		hidden := bit/8 >= prefix && bit/8 < prefix+1+len(sealPrefix) // no seal is found
		switch {
		case hidden && err == nil && bytes.Equal(got, flipped):
		case !hidden && errors.Is(err, errFlipped) && bytes.Equal(got, right):
		default:
			t.Errorf("bit %d: %q, %v", bit, got, err)
		}
		flipped[0] ^= 0x80
		if bit/8 > 0 && !hidden {
			if got, err := checkSeal(flipped); err == nil || bytes.Equal(got, flipped) {
				t.Errorf("bit %d and another one: %q, %v", bit, got, err)
			}
		}
	}
}
