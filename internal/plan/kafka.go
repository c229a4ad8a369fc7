package plan

import "math"

// Bytes per key in the dedupe buffer of Kafka's cleaner, and the load factor of the buffer
// (log.cleaner.io.buffer.load.factor).
const (
	kafkaEntryBytes = 24
	kafkaLoad       = 0.9
)

// kafkaKeys returns the number of keys that fit into a dedupe buffer of the given size in bytes.
func kafkaKeys(buffer float64) float64 {
	return math.Floor(math.Floor(buffer/kafkaEntryBytes) * kafkaLoad)
}

// uniformWindow returns the expected number of uniformly random updates that contain n distinct
// keys: -keys * ln(1 - n/keys). It is infinite if n is at least the number of all keys.
func uniformWindow(keys, n float64) float64 {
	if n >= keys {
		return math.Inf(1)
	}
	return -keys * math.Log(1-n/keys)
}

// kafkaPasses returns the work of Kafka's cleaner for one partition, in records. The partition has
// a clean section with one record per key, followed by a dirty section. The parameters clean and
// dirty are the numbers of records in the two sections. Parameter window is the number of dirty
// records whose keys fit into the dedupe buffer, so each pass processes that many dirty records. A
// pass reads them twice, to index and to filter, and reads and writes the whole clean section. So
// read = 2*dirty + passes*clean, and written = passes*clean. The growth of the clean section by new
// keys is ignored, in Kafka's favor.
func kafkaPasses(clean, dirty, window float64) (passes, read, written float64) {
	passes = math.Ceil(dirty / min(window, dirty))
	return passes, 2*dirty + passes*clean, passes * clean
}
