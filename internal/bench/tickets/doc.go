// Package tickets generates the records of benchmarks from a seed: the change stream of a help
// desk. Results of codecs depend on the content of records, so every benchmark that compresses uses
// these.
//
// Invariant: the same seed and sizes give the same records, byte for byte, on any machine.
package tickets
