package console

import (
	"math"
	"unicode/utf8"

	"heartwood.dev/heartwood/internal/console/cleanermap"
)

// textWidth returns an upper bound on the width of a label, in percent of the map's width. Maps
// that are too narrow for this bound have no labels (web/console.css).
func textWidth(label string) float64 { return 0.9 * float64(utf8.RuneCountInString(label)) }

// labelBlocks sets the labels below a row's blocks. A label is only as wide as the blocks that it
// describes, so labels do not overlap. Neighbouring blocks that the pass has written share a label.
// A block that is too narrow for its label has none, and no label overlaps the bracket of an
// unfolded block.
func labelBlocks(blocks []cleanermap.Block, drawn []mapBlock, open *openBlock) {
	for from := 0; from < len(blocks); {
		to := from + 1
		for blocks[from].Written && to < len(blocks) && blocks[to].Written {
			to++
		}
		label := labelOf(&blocks[from])
		left, right := blocks[from].X, blocks[to-1].X+blocks[to-1].Width
		index := middleOf(blocks[from:to], (left+right)/2) + from
		middle, half := blocks[index].X+blocks[index].Width/2, textWidth(label)/2
		if middle-half >= left && middle+half <= right && !open.overlaps(middle-half, middle+half) {
			drawn[index].Label = label
		}
		from = to
	}
}

// middleOf returns the index of the block whose middle is nearest to the position.
func middleOf(blocks []cleanermap.Block, position float64) (nearest int) {
	best := math.Inf(1)
	for i := range blocks {
		distance := math.Abs(blocks[i].X + blocks[i].Width/2 - position)
		if distance < best {
			nearest, best = i, distance
		}
	}
	return nearest
}

// overlaps reports whether the bracket or its label overlaps the given range of the row.
func (o *openBlock) overlaps(left, right float64) bool {
	if o == nil {
		return false
	}
	half := textWidth(o.Label) / 2
	return right > math.Min(o.X, o.At-half) && left < math.Max(o.X+o.Width, o.At+half)
}

func labelOf(b *cleanermap.Block) string {
	switch {
	case b.Current && b.Read > 0 && b.Bytes > 0:
		return formatPercent(float64(b.Read) / float64(b.Bytes))
	case b.Written:
		return "rewritten"
	case b.Segments > 1:
		return "× " + formatCount(b.Segments)
	}
	return ""
}
