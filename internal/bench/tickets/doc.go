// Package tickets generates the records of benchmarks from a seed: the change stream of a help
// desk. How well a codec compresses depends on the contents of the records, so every benchmark that
// compresses uses these records.
//
// Invariant: the same seed and sizes give the same records, byte for byte, on any machine.
package tickets
