package cleanermap

import (
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/seed"
)

// cleanRow returns a row of n clean segments of 100 bytes.
func cleanRow(n int) []Piece {
	row := make([]Piece, n)
	for i := range row {
		row[i] = Piece{Base: int64(i * 10), Last: int64(i*10 + 9), Bytes: 100,
			State: report.SegmentClean}
	}
	return row
}

func spanOf(b *Block) Span { return Span{b.Base, b.Last} }

// TestUnfoldedBlockShowsItsSegments checks that each segment of an unfolded block has its own
// block, which is wide enough to be visible. The row's other blocks must not change.
func TestUnfoldedBlockShowsItsSegments(t *testing.T) {
	rows := [][]Piece{cleanRow(10_000), cleanRow(300)}
	folded := Blocks(rows, nil)
	for index := 0; index < len(folded[0]); index += 12 {
		before := &folded[0][index]
		got := Blocks(rows, map[int]Span{0: spanOf(before)})
		if fault := check(rows[0], got[0]); fault != nil {
			t.Fatal(fault)
		}
		others := 0
		for i := range got[0] {
			b := &got[0][i]
			switch {
			case b.Open && (b.Segments != 1 || b.Width < 0.5 || b.Base < before.Base ||
				b.Last > before.Last):
				t.Fatalf("block %d unfolds to %+v", index, b)
			case !b.Open:
				if others == index {
					others++ // the unfolded block
				}
				if was := &folded[0][others]; was.Base != b.Base || was.Last != b.Last {
					t.Fatalf("block %d: another block is %+v, before %+v", index, b, was)
				}
				others++
			}
		}
		if opened := len(got[0]) - len(folded[0]) + 1; opened != before.Segments || opened < 2 {
			t.Fatalf("block %d with %d segments unfolds to %d blocks", index, before.Segments, opened)
		}
		if len(got[1]) != len(folded[1]) || got[1][0] != folded[1][0] {
			t.Fatal("another row has changed")
		}
	}
}

// TestUnfoldedBlocksUnfoldFurther checks that a block with more than OpenMax segments unfolds into
// folded blocks, and that these unfold to single segments.
func TestUnfoldedBlocksUnfoldFurther(t *testing.T) {
	rows := [][]Piece{cleanRow(100_000)}
	blocks, size := Blocks(rows, nil)[0], 0
	for depth := 0; ; depth++ {
		b := &blocks[len(blocks)/2]
		for i := range blocks {
			if blocks[i].Open && blocks[i].Segments > 1 {
				b = &blocks[i]
			}
		}
		if b.Segments == 1 || depth > 5 {
			break
		}
		if depth > 0 && b.Segments >= size {
			t.Fatalf("a block of %d segments unfolds to one of %d", size, b.Segments)
		}
		size = b.Segments
		blocks = Blocks(rows, map[int]Span{0: spanOf(b)})[0]
		if fault := check(rows[0], blocks); fault != nil {
			t.Fatal(fault)
		}
	}
	opened := 0
	for i := range blocks {
		if blocks[i].Open {
			opened++
			if blocks[i].Segments != 1 {
				t.Fatalf("got %+v after unfolding all levels", blocks[i])
			}
		}
	}
	if opened < 2 || opened > OpenMax || size < 2 {
		t.Errorf("the last block of %d segments unfolded to %d blocks", size, opened)
	}
}

// TestAnySpanKeepsEverySegment checks that no segment is lost if the span is not a block, for
// example because the log has changed.
func TestAnySpanKeepsEverySegment(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 300 {
		row := randomRow(random, random.IntN(2000))
		from := random.Int64N(20_000) - 100
		open := map[int]Span{0: {from, from + random.Int64N(3000) - 10}}
		if fault := check(row, Blocks([][]Piece{row}, open)[0]); fault != nil {
			t.Fatalf("%+v: %v", open, fault)
		}
	}
}
