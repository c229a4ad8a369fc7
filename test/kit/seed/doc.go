// Package seed gives tests the seeds of their random numbers.
//
// A seed is a function of the test's name, so that a test does the same each time: a change is
// judged by what it changed, not by a number that its author never saw. The variable HEARTWOOD_SEED
// says otherwise: a number is the only seed of every test that runs, a number and two dots the
// first of several, and random stands for one that nobody has tried; `make soak` goes on with that
// for as long as it is told. docs/adr/0171-fixed-test-seeds.md says why.
//
// A test that fails prints the command that repeats it.
package seed
