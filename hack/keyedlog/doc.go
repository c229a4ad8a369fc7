// Command keyedlog writes the directory of one compacted partition, for hack/bench-cleaner.sh. Its
// flags set the order in which keys recur and the size of segments. All segments with records are
// sealed and have a key sidecar. The command uses package logstore: batches are validated and
// appended as on a leader, and the cleaner builds the sidecars in the background.
//
// With the same flags, the records have the same keys and values on every machine. Their timestamps
// are the times of the run.
package main
