package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// at returns a batch of format v2 with the given base offset.
func at(t *testing.T, offset int64) []byte {
	t.Helper()
	b := storetest.Keyed(t, "k")
	record.Batch(b).SetBaseOffset(offset)
	return b
}

// later returns a batch of a format that does not exist yet.
func later(t *testing.T, offset int64) []byte {
	t.Helper()
	b := at(t, offset)
	b[16] = 3
	copy(b[40:], "another layout")
	return b
}

func damaged(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-1]++
	return b
}

// TestFindOtherFormat checks that records of other formats are found at their positions, and that
// other bytes are not mistaken for them.
func TestFindOtherFormat(t *testing.T) {
	v0, v1 := storetest.OldMessages(0, 5, 2), storetest.OldMessages(1, 5, 2)
	broken := at(t, 5)
	broken = broken[:len(broken)-1]
	for name, c := range map[string]struct {
		content []byte
		want    string // "" if nothing is to be found
	}{
		"empty":               {nil, ""},
		"v2":                  {slices.Concat(at(t, 5), at(t, 6)), ""},
		"incomplete v2":       {broken, ""},
		"v0":                  {v0, "offset 5 at position 0 has format v0"},
		"v1":                  {v1, "offset 5 at position 0 has format v1"},
		"compressed v0":       {storetest.OldCompressed(t, 0, 5, 9), "offset 13 at position 0 has format v0"},
		"compressed v1":       {storetest.OldCompressed(t, 1, 5, 9), "offset 13 at position 0 has format v1"},
		"null key and value":  {storetest.OldMessage{Offset: 7}.Bytes(), "offset 7 at position 0 has format v0"},
		"v2, then v1":         {slices.Concat(at(t, 5), storetest.OldMessages(1, 6, 1)), "offset 6 at position 97"},
		"damaged v1, then v1": {slices.Concat(damaged(v1), storetest.OldMessages(1, 8, 1)), "offset 5 at position 0"},
		"all of v1 damaged":   {damaged(storetest.OldMessages(1, 5, 1)), ""},
		"incomplete v1":       {storetest.OldMessages(1, 5, 1)[:30], ""},
		"damaged v2, then v1": {slices.Concat(damaged(at(t, 5)), storetest.OldMessages(1, 6, 1)), "offset 6 at position 97"},
		"later":               {later(t, 5), "format v3 of a later version"},
		"v2, then later":      {slices.Concat(at(t, 5), later(t, 6)), "offset 6 at position 97"},
		"later, below":        {later(t, 4), ""},
		"later, far above":    {later(t, 5+1<<31), ""},
		"later, incomplete":   {later(t, 5)[:80], ""},
		"zeros":               {make([]byte, 4096), ""},
		"ones":                {bytes.Repeat([]byte{0xff}, 4096), ""},
	} {
		err := record.FindOtherFormat(bytes.NewReader(c.content), 0, int64(len(c.content)), 5, false)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, record.ErrFormat) ||
			errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	mixed := slices.Concat(at(t, 5), v1)
	if err := record.FindOtherFormat(bytes.NewReader(mixed), 0, int64(len(mixed)), 5,
		true); err != nil {
		t.Errorf("only the first batch is examined: %v", err)
	}
}

// TestGarbageIsNoOtherFormat checks that two kinds of bytes are not mistaken for records of another
// format: random bytes, and the remains of old messages after a crash.
func TestGarbageIsNoOtherFormat(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 20_000 {
		content := make([]byte, 17+random.IntN(300))
		for i := range content {
			content[i] = byte(random.Uint32())
		}
		// Either the length and the magic byte are plausible and the offset is not, or a bit of an old
		// message is flipped.
		binary.BigEndian.PutUint32(content[8:], uint32(random.IntN(len(content))))
		content[16] = byte(random.IntN(5))
		if content[0] == 0 {
			content[0] = 1
		}
		if random.IntN(2) == 0 {
			content = storetest.OldMessages(int8(random.IntN(2)), 5, 1)
			i := 12 + random.IntN(len(content)-12)
			content[i] ^= 1 << random.IntN(8)
			if content[16] > 1 {
				continue
			}
		}
		if err := record.FindOtherFormat(bytes.NewReader(content), 0, int64(len(content)), 5,
			false); err != nil {
			t.Fatalf("% x: %v", content, err)
		}
	}
}
