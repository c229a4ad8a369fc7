package keys

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// seeds returns random seeds, which failures print.
func seeds(n int) []uint64 {
	var all []uint64
	for range n {
		all = append(all, rand.Uint64())
	}
	return all
}

func TestSidecarEqualsModel(t *testing.T) {
	for _, seed := range seeds(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := shape{
			base: random.Int64N(1 << 40), batches: random.IntN(120), recordsMax: 1 + random.IntN(60), keys: 1 + random.IntN(3000),
			valueMax: random.IntN(200), plain: random.IntN(3) == 0,
		}
		if random.IntN(3) == 0 {
			s.opaqueAbove = 2000
		}
		fit := []int{0, 0, 1, 100, 1000}[random.IntN(5)]
		w := newWorld(t, vfs.NewMem(), seed, s)
		w.check(w.scan(s.opaqueAbove, fit))
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}
