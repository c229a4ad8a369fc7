package cleanermap

import "slices"

// Span is an offset range: the segments with base offsets in [From, To]. It identifies a folded
// block.
type Span struct{ From, To int64 }

const (
	// OpenMax is the maximum number of blocks into which a block unfolds. A block with more segments
	// unfolds into folded blocks.
	OpenMax = 64
	// openWidthMin and openWidthMax limit the width of each unfolded block, in percent of the map's
	// width. Within these limits, the total width of the unfolded blocks is openAim.
	openWidthMin = 0.9
	openWidthMax = 2
	openAim      = 40
	// openShare is the maximum total width of a row's unfolded blocks at which only the other blocks
	// become narrower, in percent of the map's width.
	openShare = 75
)

// foldAround returns a row's blocks with one unfolded span. If the span is a block of the folded
// row, the row's other blocks do not change.
func foldAround(row []Piece, limit int, open Span) []Block {
	from := slices.IndexFunc(row, func(p Piece) bool { return p.Base >= open.From })
	to := from
	for to >= 0 && to < len(row) && row[to].Base <= open.To {
		to++
	}
	if to-from < 2 { // a pass may have replaced the span's segments
		return fold(limit, row)
	}
	outside := fold(limit-1, row[:from], row[to:])
	index := slices.IndexFunc(outside, func(b Block) bool { return b.Base > open.To })
	if index < 0 {
		index = len(outside)
	}
	inside := fold(OpenMax, row[from:to])
	for i := range inside {
		inside[i].Open = true
	}
	return slices.Insert(outside, index, inside...)
}

// enlarge widens a row's unfolded blocks. It uses the free space at the right end; if that is too
// small, the other blocks become narrower.
func enlarge(blocks []Block) {
	count := 0.0
	for i := range blocks {
		if blocks[i].Open {
			count++
		}
	}
	enlarged := min(openWidthMax, max(openWidthMin, openAim/count))
	open, others := 0.0, 0.0
	for i := range blocks {
		if b := &blocks[i]; b.Open {
			b.Width = max(b.Width, enlarged)
			open += b.Width
		} else {
			others += b.Width
		}
	}
	if open == 0 {
		return
	}
	shrinkOpen, shrinkOthers := 1.0, 1.0
	switch {
	case open+others <= 100:
	case open <= openShare:
		shrinkOthers = (100 - open) / others
	default:
		shrinkOpen = 100 / (open + others)
		shrinkOthers = shrinkOpen
	}
	for i := range blocks {
		if blocks[i].Open {
			blocks[i].Width *= shrinkOpen
		} else {
			blocks[i].Width *= shrinkOthers
		}
	}
	align(blocks)
}
