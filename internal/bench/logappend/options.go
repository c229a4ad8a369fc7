package logappend

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/bench/tickets"
	"heartwood.dev/heartwood/internal/compress"
)

// Bounds of Options: what a log takes, and what a machine can hold.
const (
	batchBytesMax  = 64 << 20
	recordBytesMin = tickets.SizeMin
	recordsMax     = 1 << 32
)

// Options are one measurement.
type Options struct {
	Codec compress.Codec // of the topic: batches are stored in it
	Level int            // of Codec, or compress.LevelDefault
	// Sent is the codec that batches come in. If it is another than Codec, the log compresses them
	// again, as it does in a topic whose compression is not "producer".
	Sent        compress.Codec
	BatchBytes  int    // of records in a batch, uncompressed; at most 64 MiB
	RecordBytes int    // of a record's key and value, about; 40 to BatchBytes
	Records     int    // in all, rounded up to whole batches
	Seed        uint64 // of the records
	// records are random capital letters, as in Kafka's own benchmarks, and not tickets
	Letters bool
	// a directory to make the log's own in, which is removed; "": that for temporary files
	Dir   string
	Flush time.Duration // how often the log is synced
}

// Validate reports all that is wrong with the options.
func (o Options) Validate() error {
	var wrong []error
	if !o.Codec.Valid() || !o.Sent.Valid() {
		wrong = append(wrong, errors.New("unknown codec"))
	} else if err := o.Codec.CheckLevel(o.Level); err != nil {
		wrong = append(wrong, err)
	}
	if o.BatchBytes < recordBytesMin || o.BatchBytes > batchBytesMax {
		wrong = append(wrong, fmt.Errorf("batch bytes %d: must be %d to %d", o.BatchBytes,
			recordBytesMin, batchBytesMax))
	}
	if o.RecordBytes < recordBytesMin || o.RecordBytes > o.BatchBytes {
		wrong = append(wrong, fmt.Errorf("record bytes %d: must be %d to the batch bytes, %d",
			o.RecordBytes, recordBytesMin, o.BatchBytes))
	}
	if o.Records < 1 || o.Records > recordsMax {
		wrong = append(wrong, fmt.Errorf("records %d: must be 1 to %d", o.Records, recordsMax))
	}
	if o.Flush <= 0 {
		wrong = append(wrong, fmt.Errorf("flush %s: must be above 0", o.Flush))
	}
	return errors.Join(wrong...)
}

// perBatch is how many records a batch has.
func (o Options) perBatch() int { return o.BatchBytes / o.RecordBytes }

// batches is how many batches are appended.
func (o Options) batches() int { return (o.Records + o.perBatch() - 1) / o.perBatch() }
