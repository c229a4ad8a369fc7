package cleanermap

import "slices"

// Span is the range of offsets of a folded block: its segments have base offsets in [From, To].
type Span struct{ From, To int64 }

const (
	// OpenMax is the number of blocks of an unfolded block. One with more segments unfolds to
	// folded blocks.
	OpenMax = 64
	// openWidthMin and openWidthMax are limits of the width to which these blocks are enlarged, in
	// percent of the width of the map. Within them, they have openAim together.
	openWidthMin = 0.9
	openWidthMax = 2
	openAim      = 40
	// openShare is the part of the map that the unfolded blocks of a row may take from the others,
	// in percent.
	openShare = 75
)

// foldAround returns the blocks of a row with one unfolded span. If the span is one block of the
// folded row, the other blocks of that row are unchanged.
func foldAround(row []Piece, limit int, open Span) []Block {
	from := slices.IndexFunc(row, func(p Piece) bool { return p.Base >= open.From })
	to := from
	for to >= 0 && to < len(row) && row[to].Base <= open.To {
		to++
	}
	if to-from < 2 { // a pass may have replaced its segments
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

// enlarge widens the unfolded blocks of a row. It uses the free space on the right; if that is too
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
