// Package cleanermap computes the console's cleaner map. The map shows the segments of each log as
// a row of blocks, either live or at a step of an earlier pass.
//
//   - log.go: the segments of one partition replica and the steps of its running pass, kept up to
//     date by the events of GET /api/v1/events.
//   - blocks.go: the blocks of a row. The width of a block is proportional to its bytes. If there
//     are too many segments, neighbouring segments with the same state are folded into one block.
//   - unfold.go: the blocks of a row in which one folded block is unfolded.
//   - replay.go: the frames of a pass that has ended.
//
// The package is pure. Invariants of a row of blocks, which its tests check:
//
//   - The blocks are ascending by offset, do not overlap, and contain every segment exactly once.
//   - Their bytes, garbage and segments add up to the log's totals.
//   - All segments in one block have the same state.
package cleanermap
