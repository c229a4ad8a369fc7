// Package seed provides the seeds of random numbers in tests.
//
// By default a seed is a function of the test's name, so that a test does the same in each run: a
// failure is caused by a change, and not by a number that its author never saw. The variable
// HEARTWOOD_SEED overrides it. A number is the only seed of every test; a number followed by two
// dots is the first of several; "random" stands for a new seed in each run, which `make soak`
// repeats. See docs/adr/0171-fixed-test-seeds.md.
//
// A test that fails prints the command that repeats it.
package seed
