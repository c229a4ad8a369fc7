// Package plan estimates the resources of a compacted topic: the disk space, how often a pass of
// the cleaner is due, what a pass reads and writes, and the cost of a republication of every key.
// docs/plan.md is the user documentation, with an example.
//
// The package is pure and measures nothing. The formulas model the cleaner of docs/cleaner.md for a
// topic in its steady state: every key has a record, each update replaces an older record of the
// same size, and updates are distributed uniformly over the hot keys. Formulas that are bounds and
// not expectations are marked as such.
//
// Sizes are in bytes, rates per second, and fractions 0 to 1. Numbers are float64 because they are
// estimates.
package plan
