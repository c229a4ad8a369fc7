package logappend

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/bench/tickets"
	"heartwood.dev/heartwood/internal/compress"
)

// Limits on Options.
const (
	batchBytesMax  = 64 << 20
	recordBytesMin = tickets.SizeMin
	recordsMax     = 1 << 32
)

// Options configures a measurement.
type Options struct {
	Codec compress.Codec // compression of the topic
	Level int            // compression level of Codec, or compress.LevelDefault
	// Sent is the codec of the batches that are appended. If it differs from Codec, the log
	// recompresses them, as in a topic whose compression is not "producer".
	Sent        compress.Codec
	BatchBytes  int    // uncompressed size of a batch's records; at most 64 MiB
	RecordBytes int    // approximate size of a record's key and value; 40 to BatchBytes
	Records     int    // number of records, which is rounded up to whole batches
	Seed        uint64 // seed from which the records are generated
	// Letters selects records of random capital letters, as in Kafka's own benchmarks, instead of help
	// desk tickets.
	Letters bool
	// Dir is the directory in which the log's temporary directory is created; "" means the system's
	// directory for temporary files.
	Dir   string
	Flush time.Duration // interval at which the log is synced
	// Done counts the records that were appended or read, to display the progress; nil: records are
	// not counted. Half of Expected are appended, and half are read.
	Done *atomic.Int64
}

// Expected returns the value that Done has at the end.
func (o Options) Expected() int64 { return 2 * int64(o.batches()) * int64(o.perBatch()) }

// Validate returns an error that contains all faults in the options.
func (o Options) Validate() error {
	var faults []error
	if !o.Codec.Valid() || !o.Sent.Valid() {
		faults = append(faults, errors.New("unknown codec"))
	} else if err := o.Codec.CheckLevel(o.Level); err != nil {
		faults = append(faults, err)
	}
	if o.BatchBytes < recordBytesMin || o.BatchBytes > batchBytesMax {
		faults = append(faults, fmt.Errorf("batch bytes %d: must be %d to %d", o.BatchBytes,
			recordBytesMin, batchBytesMax))
	}
	if o.RecordBytes < recordBytesMin || o.RecordBytes > o.BatchBytes {
		faults = append(faults, fmt.Errorf("record bytes %d: must be %d to the batch bytes, %d",
			o.RecordBytes, recordBytesMin, o.BatchBytes))
	}
	if o.Records < 1 || o.Records > recordsMax {
		faults = append(faults, fmt.Errorf("records %d: must be 1 to %d", o.Records, recordsMax))
	}
	if o.Flush <= 0 {
		faults = append(faults, fmt.Errorf("flush %s: must be above 0", o.Flush))
	}
	return errors.Join(faults...)
}

// perBatch returns the number of records in a batch.
func (o Options) perBatch() int { return o.BatchBytes / o.RecordBytes }

// batches returns the number of batches.
func (o Options) batches() int { return (o.Records + o.perBatch() - 1) / o.perBatch() }
