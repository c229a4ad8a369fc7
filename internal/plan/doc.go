// Package plan is the arithmetic of a compacted topic: how much disk it needs, how often a pass of
// the cleaner is due, what a pass reads and writes, what a republication of every key costs.
// docs/plan.md explains it to a user, with an example.
//
// All of it is functions of their arguments; nothing is measured. The formulas model the cleaner as
// docs/cleaner.md describes it, for a topic in its steady state: every key is there, each update
// replaces an older record of the same size, updates hit the hot keys alike. Where a formula is a
// bound and not an expectation, it says so.
//
// Sizes are bytes, rates are a second, shares are 0 to 1. The numbers are float64, because they are
// estimates: whole bytes would claim more than is known.
package plan
