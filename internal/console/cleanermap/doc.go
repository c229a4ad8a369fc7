// Package cleanermap computes what the cleaner map of the console shows: the segments of a log as
// blocks in a row, live or at a step of an earlier pass.
//
//   - log.go: the segments of one partition replica and the steps of its running pass, kept up to
//     date by the events of GET /api/v1/events.
//   - blocks.go: the blocks of a row. The width of a block is proportional to its bytes, and
//     neighbouring segments of one state fold into one block where there are too many.
//   - unfold.go: the blocks of a row of which one folded block is unfolded.
//   - replay.go: the frames of a pass that has ended.
//
// The package is pure. Invariants of a row of blocks, which its tests check:
//
//   - The blocks are ascending by offset, do not overlap, and contain every segment exactly once.
//   - The sums of their bytes, garbage and segments are those of the log.
//   - A block with several segments contains segments of one state only.
package cleanermap
