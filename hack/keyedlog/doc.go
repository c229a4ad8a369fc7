// Command keyedlog writes the directory of one compacted partition, for hack/bench-cleaner.sh:
// records whose keys recur in a given order, in segments of a given size, all of them sealed, each
// with its key sidecar. It uses the log store: batches are validated and appended as on a leader,
// and the cleaner builds the sidecars in the background.
//
// The same flags produce the same records, keys and values, on every machine; timestamps are those
// of the run.
package main
