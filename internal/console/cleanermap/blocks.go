package cleanermap

// Piece is one segment of a row.
type Piece struct {
	Base, Last     int64
	Bytes, Garbage int64  // Garbage <= Bytes
	State          string // report.Segment.State
	BlockedBy      string // report.Segment.BlockedBy
	Chosen, Forced bool   // the running pass rewrites it; Forced: must rewrite it
	Current        bool   // the running pass is rewriting it now
	Read           int64  // bytes that the rewrite has read so far, <= Bytes
	Written        bool   // the running pass has written it
	Known          bool   // the running pass has listed it, whether or not it is chosen
}

// Block is one block in a row of the map. It represents one segment, or several neighbouring
// segments that are folded.
type Block struct {
	Piece            // for a folded block: the first base offset, and the sums
	Segments int     // number of segments, at least 1
	Open     bool    // part of the unfolded span of its row
	X, Width float64 // percent of the map's width
}

// Limits on a map.
const (
	// BlocksMax is the maximum number of blocks on a page on which no block is unfolded. A browser
	// draws that many blocks in a few milliseconds.
	BlocksMax = 1500
	// rowBlocksMax is the maximum number of blocks in a row, because a block must be some pixels wide
	// to be visible.
	rowBlocksMax = 240
	// widthMin is the minimum width of a block, in percent of the map's width.
	widthMin = 0.35
)

// Blocks returns the blocks of several rows. The longest row is at most 100 percent wide. open
// contains the unfolded spans by row index.
func Blocks(rows [][]Piece, open map[int]Span) [][]Block {
	most := min(rowBlocksMax, max(1, BlocksMax/max(1, len(rows))))
	blocks := make([][]Block, len(rows))
	perByte, longest := scale(rows), 0.0
	for i, row := range rows {
		blocks[i] = fold(most, row)
		longest = max(longest, lengthOf(blocks[i], perByte)) // an unfolded block changes no other row
		if span, found := open[i]; found {
			blocks[i] = foldAround(row, most, span)
		}
	}
	for i := range blocks {
		place(blocks[i], perByte, longest)
		enlarge(blocks[i])
	}
	return blocks
}

// scale returns the width of one byte in percent, without regard to minimum widths.
func scale(rows [][]Piece) float64 {
	most := int64(1)
	for _, row := range rows {
		sum := int64(0)
		for i := range row {
			sum += row[i].Bytes
		}
		most = max(most, sum)
	}
	return 100 / float64(most)
}

func lengthOf(blocks []Block, perByte float64) (sum float64) {
	for i := range blocks {
		sum += max(widthMin, float64(blocks[i].Bytes)*perByte)
	}
	return sum
}

// place sets the positions and widths of a row's blocks. If minimum widths make the longest row
// wider than the map, all blocks become narrower.
func place(blocks []Block, perByte, longest float64) {
	shrink := 1.0
	if longest > 100 {
		shrink = 100 / longest
	}
	for i := range blocks {
		blocks[i].Width = shrink * max(widthMin, float64(blocks[i].Bytes)*perByte)
	}
	align(blocks)
}

// align sets the positions of blocks from their widths.
func align(blocks []Block) {
	x := 0.0
	for i := range blocks {
		blocks[i].X = x
		x += blocks[i].Width
	}
}

// likeness is the condition under which two neighbouring pieces may share a block.
type likeness int

const (
	sameWork     likeness = iota // the same state, and the pass treats both in the same way
	notRewritten                 // the same state, and the pass is rewriting neither
	sameState
)

// fold combines neighbouring pieces until the parts of a row together have at most limit blocks.
// The maximum number of pieces per block is a power of two, so that blocks with the same state
// remain comparable. Pieces with different states never share a block, because the state rarely
// changes within a row. No block contains pieces of two parts.
func fold(limit int, parts ...[]Piece) (blocks []Block) {
	longest := 0
	for _, part := range parts {
		longest = max(longest, len(part))
	}
	for _, like := range []likeness{sameWork, notRewritten, sameState} {
		for size := 1; ; size *= 2 {
			blocks = blocks[:0]
			for _, part := range parts {
				blocks = foldBy(blocks, part, size, like)
			}
			if len(blocks) <= limit {
				return blocks
			}
			if size >= longest {
				break
			}
		}
	}
	return blocks
}

// foldBy appends the blocks for one part of a row, with at most size pieces per block.
func foldBy(blocks []Block, part []Piece, size int, like likeness) []Block {
	first := len(blocks)
	for i := range part {
		last := len(blocks) - 1
		if last < first || blocks[last].Segments >= size ||
			!like.holds(&blocks[last].Piece, &part[i]) {
			blocks = append(blocks, Block{Piece: part[i], Segments: 1})
			continue
		}
		b := &blocks[last]
		b.Segments++
		b.Last = part[i].Last
		b.Bytes += part[i].Bytes
		b.Garbage += part[i].Garbage
		b.Read += part[i].Read
		b.Forced = b.Forced || part[i].Forced
		b.Chosen = b.Chosen || part[i].Chosen
		b.Current = b.Current || part[i].Current
		b.Written = b.Written || part[i].Written
	}
	return blocks
}

// holds reports whether two pieces may share a block. A segment that is being rewritten may share a
// block only under sameState, so that its progress is visible. The active segment never shares a
// block.
func (l likeness) holds(a, b *Piece) bool {
	if a.State != b.State || a.BlockedBy != b.BlockedBy {
		return false
	}
	switch l {
	case sameWork:
		return a.Chosen == b.Chosen && a.Written == b.Written && !a.Current && !b.Current
	case notRewritten:
		return !a.Current && !b.Current
	}
	return true
}
