// Package plan estimates the resources that a compacted topic needs: disk space, the interval
// between passes of the cleaner, the I/O of a pass, and the cost when producers write every key
// again (a republication). docs/operate/sizing.md is the user documentation, with an example.
//
// The package is pure and measures nothing. The formulas model the cleaner in
// docs/internals/cleaner.md for a topic in its steady state: every key has a record, each update
// replaces an older record of the same size, and updates are distributed uniformly over the hot
// keys. Results are expected values, except where a comment calls them a bound.
//
// Sizes are in bytes, rates are per second, and fractions are between 0 and 1. Numbers are float64
// because they are estimates. Names such as I4 and F8 are rows of
// docs/internals/cleaner-invariants.md.
package plan
