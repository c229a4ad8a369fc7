package plan

import "math"

// What Kafka's cleaner needs of its buffer for a key, and how full it lets the buffer get
// (log.cleaner.io.buffer.load.factor).
const (
	kafkaEntryBytes = 24
	kafkaLoad       = 0.9
)

// kafkaKeys returns how many keys fit a buffer of so many bytes.
func kafkaKeys(buffer float64) float64 {
	return math.Floor(math.Floor(buffer/kafkaEntryBytes) * kafkaLoad)
}

// uniformWindow returns how many random updates of keys hit n different ones: w = -keys * ln(1 -
// n/keys); infinite if all fit.
func uniformWindow(keys, n float64) float64 {
	if n >= keys {
		return math.Inf(1)
	}
	return -keys * math.Log(1-n/keys)
}

// kafkaPasses is what Kafka's cleaner does, in records of one partition, to clean dirty records
// above clean ones, one a key; window is how many of the dirty ones fit its buffer. Every pass
// reads its window twice (to index, and to filter), and reads and writes the clean section again
// (reference 6.1): read = 2*dirty + passes*clean, written = passes*clean. What a pass adds to the
// clean section, as it does when the dirty records have new keys, is left out, in Kafka's favour.
func kafkaPasses(clean, dirty, window float64) (passes, read, written float64) {
	passes = math.Ceil(dirty / min(window, dirty))
	return passes, 2*dirty + passes*clean, passes * clean
}
