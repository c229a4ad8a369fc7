package console

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
	"heartwood.dev/heartwood/test/kit/seed"
)

// pixels is the width of the narrowest map with labels (web/console.css). letterPixels is the mean
// width of the letters in "rewritten" in DejaVu Sans, a wide font, at 11 px.
const pixels, letterPixels = 617, 5.4

// drawnRow returns a row of clean segments with random sizes. The pass has written some of them.
func drawnRow(random *rand.Rand, n int, open cleanermap.Span) mapRow {
	pieces := make([]cleanermap.Piece, n)
	written := false
	for i := range pieces {
		if random.IntN(4) == 0 {
			written = !written
		}
		bytes := 1 + random.Int64N(1<<20)
		pieces[i] = cleanermap.Piece{Base: int64(i * 10), Last: int64(i*10 + 9), Bytes: bytes,
			State: report.SegmentClean, Written: written}
		if pieces[i].Current = !written && random.IntN(10) == 0; pieces[i].Current {
			pieces[i].Read = random.Int64N(bytes + 1)
		}
	}
	row := mapRow{ID: "0", Name: "a-0"}
	row.draw("a", cleanermap.Blocks([][]cleanermap.Piece{pieces},
		map[int]cleanermap.Span{0: open})[0])
	return row
}

// TestLabelsDoNotOverlap checks rows with random blocks. No two labels may overlap, and each run of
// blocks that the pass has written must have a label if there is room for it.
func TestLabelsDoNotOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	labels, brackets := 0, 0
	for range 500 {
		n := 1 + random.IntN(40)
		if random.IntN(4) == 0 {
			n = 300 + random.IntN(3000)
		}
		row := drawnRow(random, n, cleanermap.Span{From: random.Int64N(int64(n * 10)),
			To: random.Int64N(int64(n * 20))})
		end := 0.0
		place := func(label string, middle float64) {
			half := 100 * letterPixels / pixels * float64(len([]rune(label))) / 2
			if labels++; middle-half < end-1e-9 {
				t.Fatalf("label %q of %+v begins at %.1f, the one before ends at %.1f", label,
					row.Blocks, middle-half, end)
			}
			end = middle + half
		}
		bracket := row.Open
		for i := range row.Blocks {
			b := &row.Blocks[i]
			if bracket != nil && b.X >= bracket.X+bracket.Width {
				place(bracket.Label, bracket.At)
				brackets++
				bracket = nil
			}
			if b.Label != "" {
				place(b.Label, b.X+b.Width/2)
			}
		}
	}
	if labels < 500 || brackets == 0 {
		t.Errorf("the rows had only %d labels and %d brackets", labels, brackets)
	}
}

// TestWrittenNeighboursShareALabel checks that neighbouring blocks that are each too narrow for a
// label share one.
func TestWrittenNeighboursShareALabel(t *testing.T) {
	pieces := []cleanermap.Piece{{Bytes: 5, Written: true}, {Base: 1, Bytes: 5, Written: true},
		{Base: 2, Bytes: 5, Written: true}, {Base: 3, Bytes: 5}, {Base: 4, Bytes: 5, Written: true},
		{Base: 5, Bytes: 75, Written: false}}
	row := mapRow{ID: "0"}
	row.draw("a", cleanermap.Blocks([][]cleanermap.Piece{pieces}, nil)[0])
	for i := range row.Blocks {
		if got, want := row.Blocks[i].Label, map[int]string{1: "rewritten"}[i]; got != want {
			t.Errorf("block %d has the label %q, want %q", i, got, want)
		}
	}
}
