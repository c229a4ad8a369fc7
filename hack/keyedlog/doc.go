// Command keyedlog writes the directory of one compacted partition, for hack/bench-cleaner.sh:
// records with keys that come again in a given order, in segments of a given size, all of them
// sealed, each with its key sidecar. It is the log store's own writing: batches are appended and
// validated as a leader does it, and the cleaner's background makes the sidecars.
//
// The same flags make the same records, keys and values, on every machine; timestamps are those of
// the run.
package main
