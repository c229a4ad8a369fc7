// Package tickets makes the records that benchmarks write: a help desk's change stream, from a
// seed. What codecs and caches make of records depends on what is in them, so every benchmark that
// compresses takes the same ones.
//
// Invariants: the same seed and sizes give the same records, byte for byte, whatever the machine.
package tickets
