// Package seed provides the seeds of random numbers in tests.
//
// By default, a seed is a function of the test's name, so each run of a test does the same. If a
// test fails, the cause is a change of the code, not a random number. The environment variable
// HEARTWOOD_SEED overrides the default. If it is a number, every test runs only with this seed. If
// it is a number followed by two dots, the number is the first seed of each sequence. If it is
// "random", every run uses new seeds; `make soak` repeats tests in this way. See
// ADR 0171.
//
// A test that fails prints the command that repeats it with the same seed.
package seed
