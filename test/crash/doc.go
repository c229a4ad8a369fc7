// Package crash kills the built binary with SIGKILL while its cleaner works, or single brokers of a
// cluster, and looks whether the log keeps what it promised: of every key the latest acknowledged
// record, of a deleted key nothing or its tombstone, and nothing else.
//
// The short form is part of `make test`. HEARTWOOD_CRASH_ROUNDS=n makes it n kills;
// HEARTWOOD_SEED=n repeats one (test/kit/seed), as far as the machine lets it: the load and the
// delays before the kills are the same, what the process has done by then is not.
package crash
