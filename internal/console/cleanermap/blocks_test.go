package cleanermap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/seed"
)

// randomRow returns a row of n pieces.
func randomRow(random *rand.Rand, n int) []Piece {
	states := []string{report.SegmentClean, report.SegmentDirty, report.SegmentBlocked}
	row := make([]Piece, n)
	state := states[0]
	for i := range row {
		if random.IntN(5) == 0 {
			state = states[random.IntN(len(states))]
		}
		bytes := random.Int64N(1 << 20)
		row[i] = Piece{Base: int64(i * 10), Last: int64(i*10 + 9), Bytes: bytes, State: state,
			Garbage: random.Int64N(bytes + 1), Chosen: random.IntN(3) == 0,
			Current: random.IntN(50) == 0}
	}
	return row
}

// TestBlocksContainEverySegmentOnce checks the invariants in doc.go with random rows.
func TestBlocksContainEverySegmentOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		rows := make([][]Piece, 1+random.IntN(20))
		for i := range rows {
			rows[i] = randomRow(random, random.IntN(400))
		}
		for i, blocks := range Blocks(rows, nil) {
			if fault := check(rows[i], blocks); fault != nil {
				t.Fatal(fault)
			}
		}
	}
}

// check checks that the blocks match the pieces of the row.
func check(row []Piece, blocks []Block) error {
	index, end := 0, 0.0
	for i := range blocks {
		b := &blocks[i]
		var bytes, garbage int64
		for range b.Segments {
			if index >= len(row) {
				return fmt.Errorf("block %d contains more segments than there are", i)
			}
			p := &row[index]
			if p.State != b.State || p.Chosen && !b.Chosen || p.Current && !b.Current {
				return fmt.Errorf("block %d: segment %d has another state", i, p.Base)
			}
			bytes, garbage = bytes+p.Bytes, garbage+p.Garbage
			index++
		}
		first, last := &row[index-b.Segments], &row[index-1]
		if b.Base != first.Base || b.Last != last.Last || b.Bytes != bytes || b.Garbage != garbage {
			return fmt.Errorf("block %d: got %+v, which is not the sum of its segments", i, b)
		}
		if diff := b.X - end; diff < -1e-6 || diff > 1e-6 || b.Width <= 0 {
			return fmt.Errorf("block %d begins at %f; the one before ends at %f", i, b.X, end)
		}
		end = b.X + b.Width
	}
	if index != len(row) || end > 100+1e-6 {
		return fmt.Errorf("the blocks contain %d of %d segments and end at %f", index, len(row), end)
	}
	return nil
}

// TestEveryLargeLogFolds checks that a row has at most rowBlocksMax blocks, even if no segment may
// be cleaned, if the pass rewrites every other segment, or if it rewrites all segments at once.
func TestEveryLargeLogFolds(t *testing.T) {
	for name, change := range map[string]func(p *Piece){
		"blocked": func(p *Piece) { p.State, p.BlockedBy = report.SegmentBlocked, "min_lag" },
		"chosen":  func(p *Piece) { p.Chosen = p.Base%2 == 0 },
		"current": func(p *Piece) { p.Current, p.Read = true, 50 },
	} {
		row := make([]Piece, 10_000)
		for i := range row {
			row[i] = Piece{Base: int64(i), Last: int64(i), Bytes: 100, State: report.SegmentClean}
			change(&row[i])
		}
		active := &row[len(row)-1]
		*active = Piece{Base: active.Base, Last: active.Last, Bytes: 100,
			State: report.SegmentBlocked, BlockedBy: "active_segment"}
		blocks := Blocks([][]Piece{row}, nil)[0]
		if fault := check(row, blocks); fault != nil {
			t.Errorf("%s: %v", name, fault)
		}
		if last := blocks[len(blocks)-1]; len(blocks) > rowBlocksMax || last.Segments != 1 ||
			last.Base != active.Base {
			t.Errorf("%s: got %d blocks, the last %+v", name, len(blocks), last)
		}
	}
}

// TestLargeLogsFold checks that segments with the same state fold until a page has at most
// BlocksMax blocks.
func TestLargeLogsFold(t *testing.T) {
	rows := make([][]Piece, 6)
	for i := range rows {
		for n := range 10_000 {
			rows[i] = append(rows[i], Piece{Base: int64(n), Last: int64(n), Bytes: 100,
				State: report.SegmentClean})
		}
		rows[i][5000].Current = true
	}
	sum := 0
	for i, blocks := range Blocks(rows, nil) {
		sum += len(blocks)
		if fault := check(rows[i], blocks); fault != nil {
			t.Error(fault)
		}
	}
	if sum == 0 || sum > BlocksMax {
		t.Errorf("got %d blocks, want at most %d", sum, BlocksMax)
	}
	few := Blocks([][]Piece{rows[0][:200]}, nil)
	if len(few[0]) != 200 {
		t.Errorf("got %d blocks of 200 segments, want no folding", len(few[0]))
	}
}

// TestWidthsAreComparable checks that a byte has the same width in all rows.
func TestWidthsAreComparable(t *testing.T) {
	blocks := Blocks([][]Piece{{{Bytes: 600, State: "clean"}, {Base: 1, Bytes: 400, State: "dirty"}},
		{{Bytes: 500, State: "clean"}}, {}}, nil)
	if blocks[0][0].Width != 60 || blocks[0][1].X != 60 || blocks[1][0].Width != 50 ||
		len(blocks[2]) != 0 {
		t.Errorf("got %+v", blocks)
	}
}
