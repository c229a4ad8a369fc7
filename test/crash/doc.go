// Package crash kills the process of the built binary with SIGKILL while its cleaner runs, or
// single brokers of a cluster, and checks the log afterwards. The log must contain the latest
// acknowledged record of every key. For a deleted key it may contain the tombstone or no record.
//
// The short form is part of `make test`. HEARTWOOD_CRASH_ROUNDS=n sets the number of kills.
// HEARTWOOD_SEED=n repeats a run (test/kit/seed): the load and the delays before the kills are then
// the same. The progress of the process at each kill still depends on the machine.
package crash
