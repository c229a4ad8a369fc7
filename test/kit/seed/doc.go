// Package seed provides the seeds of random numbers in tests.
//
// By default a seed is a function of the test's name, so that a test does the same in each run. If
// it fails, a change of the code is the cause, and not a random number. The environment variable
// HEARTWOOD_SEED overrides the default. With a number every test runs with this seed only. With a
// number and two dots the number is the first seed of each sequence. With "random" every run uses
// new seeds; `make soak` repeats tests in this way. See docs/adr/0171-fixed-test-seeds.md.
//
// A test that fails prints the command that repeats it with the same seed.
package seed
