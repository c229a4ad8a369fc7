// Package crash kills the built binary with SIGKILL while its cleaner runs, or single brokers of a
// cluster, and checks the log afterwards: it must contain the latest acknowledged record of every
// key, nothing or the tombstone of a deleted key, and nothing else.
//
// The short form is part of `make test`. HEARTWOOD_CRASH_ROUNDS=n sets the number of kills.
// HEARTWOOD_SEED=n repeats a run (test/kit/seed): the load and the delays before the kills are the
// same, but the progress of the process at each kill still depends on the machine.
package crash
