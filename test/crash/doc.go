// Package crash kills processes, and cuts the power of brokers.
//
// It kills the process of the built binary with SIGKILL while its cleaner runs, or kills
// single brokers of a cluster. Afterwards it checks the log. The log must contain the latest
// acknowledged record of every key. For a deleted key, it can contain the tombstone or no record.
//
// TestPowerCuts runs brokers in its own process, on simulated disks that lose what was not synced,
// and measures the lost records (docs/use/durability.md).
//
// The short form is part of `make test`. HEARTWOOD_CRASH_ROUNDS=n sets the number of kills.
// HEARTWOOD_SEED=n repeats a run (test/kit/seed) with the same load and the same delays before the
// kills. The progress of the process at each kill still depends on the machine.
package crash
