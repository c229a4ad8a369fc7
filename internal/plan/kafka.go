package plan

import "math"

// Buffer bytes per key of Kafka's cleaner, and its load factor (log.cleaner.io.buffer.load.factor).
const (
	kafkaEntryBytes = 24
	kafkaLoad       = 0.9
)

// kafkaKeys returns the number of keys that fit into a buffer.
func kafkaKeys(buffer float64) float64 {
	return math.Floor(math.Floor(buffer/kafkaEntryBytes) * kafkaLoad)
}

// uniformWindow returns the number of uniformly random updates that contain n distinct keys:
// w = -keys * ln(1 - n/keys); infinite if all keys fit.
func uniformWindow(keys, n float64) float64 {
	if n >= keys {
		return math.Inf(1)
	}
	return -keys * math.Log(1-n/keys)
}

// kafkaPasses returns the work of Kafka's cleaner for one partition with clean records, one per
// key, and dirty records after them, of which window fit its buffer. Units are records. Each pass
// reads its window twice, to index and to filter, and reads and writes the whole clean section
// (reference 6.1): read = 2*dirty + passes*clean, written = passes*clean. The growth of the clean
// section by new keys is ignored, in Kafka's favor.
func kafkaPasses(clean, dirty, window float64) (passes, read, written float64) {
	passes = math.Ceil(dirty / min(window, dirty))
	return passes, 2*dirty + passes*clean, passes * clean
}
