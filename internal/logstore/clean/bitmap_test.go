package clean

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestBitmapEqualsMap(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	b := newBitmap(3000)
	model := map[uint32]bool{}
	for range 500 {
		i := random.Uint32N(3000)
		b.set(i)
		model[i] = true
		from := random.Uint32N(3300)
		to := from + random.Uint32N(400)
		want := 0
		for j := from; j < to; j++ {
			if b.has(j) != model[j] {
				t.Fatalf("has(%d) is %v, want %v", j, b.has(j), model[j])
			}
			if model[j] {
				want++
			}
		}
		if got := b.count(from, to); got != want {
			t.Fatalf("count(%d, %d) is %d, want %d", from, to, got, want)
		}
	}
}
