package client

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/bench/tickets"
)

// Bounds of the options: what one process can drive, and what a frame takes.
const (
	recordsMax    = 1 << 40
	batchBytesMin = 1 << 10
	batchBytesMax = 64 << 20
	fetchBytesMax = 512 << 20 // half of what the client reads in one answer
	clientsMax    = 1000
	partitionsMax = 10_000
	durationMax   = 24 * time.Hour
	lingerMax     = time.Minute
	// recordOverhead is what a batch of one record has besides its key and value, and some to
	// spare.
	recordOverhead = 256
)

// Target is the topic that is measured, and where it is.
type Target struct {
	Bootstrap []string // HOST:PORT of any brokers of the cluster
	Topic     string
}

func (t Target) validate() []error {
	var wrong []error
	if len(t.Bootstrap) == 0 {
		wrong = append(wrong, errors.New("no bootstrap address"))
	}
	for _, address := range t.Bootstrap {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			wrong = append(wrong, fmt.Errorf("bootstrap address %q: want HOST:PORT", address))
		}
	}
	if t.Topic == "" {
		wrong = append(wrong, errors.New("no topic"))
	}
	return wrong
}

// ProduceOptions are one measurement of producing.
type ProduceOptions struct {
	Target
	Partitions  int  // of a topic that is made; 1 to 10,000
	Create      bool // makes the topic when it is absent, with the cluster's own replication
	Records     int64
	Duration    time.Duration // the run ends at this time, or with Records, whichever is first
	RecordBytes int           // of key and value
	Rate        int           // records a second, of all producers together; 0: as fast as they go
	Acks        string        // "0", "1" or "all"
	Codec       string        // "none", "gzip", "snappy", "lz4" or "zstd"
	BatchBytes  int           // of a batch, at most
	Linger      time.Duration // how long a batch waits for more records
	Producers   int           // clients, each with its own connections
	Seed        uint64        // of the records
}

// Validate reports all that is wrong with the options.
func (o ProduceOptions) Validate() error {
	wrong := o.validate()
	_, err := codecOf(o.Codec)
	wrong = append(wrong, err)
	_, err = acksOf(o.Acks)
	wrong = append(wrong, err,
		between("partitions", o.Partitions, 1, partitionsMax),
		between("records", o.Records, 1, recordsMax),
		between("duration", o.Duration, time.Millisecond, durationMax),
		between("rate", o.Rate, 0, 1_000_000_000),
		between("batch bytes", o.BatchBytes, batchBytesMin, batchBytesMax),
		between("linger", o.Linger, 0, lingerMax),
		between("producers", o.Producers, 1, clientsMax))
	if o.RecordBytes < tickets.SizeMin || o.RecordBytes > o.BatchBytes-recordOverhead {
		wrong = append(
			wrong,
			fmt.Errorf("record bytes %d: must be %d to %d, which fits in a batch of %d",
				o.RecordBytes, tickets.SizeMin, o.BatchBytes-recordOverhead, o.BatchBytes),
		)
	}
	return errors.Join(wrong...)
}

// ConsumeOptions are one measurement of consuming.
type ConsumeOptions struct {
	Target
	// Latest reads only what is produced from now on, and so measures latency from end to end.
	// Otherwise all is read that the topic holds now.
	Latest  bool
	Records int64 // at most; 0: no limit
	// the run ends at this time, with Records, or when nothing comes, whichever is first
	Duration  time.Duration
	Consumers int           // clients; the partitions are dealt out among them
	MaxWait   time.Duration // how long a fetch may wait for records
	MaxBytes  int           // of a fetch
}

// Validate reports all that is wrong with the options.
func (o ConsumeOptions) Validate() error {
	return errors.Join(append(o.validate(),
		between("records", o.Records, 0, recordsMax),
		between("duration", o.Duration, time.Millisecond, durationMax),
		between("consumers", o.Consumers, 1, clientsMax),
		between("max wait", o.MaxWait, time.Millisecond, lingerMax),
		between("max bytes", o.MaxBytes, batchBytesMin, fetchBytesMax))...)
}

func between[T int | int64 | time.Duration](name string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s %v: must be %v to %v", name, value, low, high)
	}
	return nil
}

func codecOf(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{},
		fmt.Errorf("codec %q: must be none, gzip, snappy, lz4 or zstd", name)
}

func acksOf(name string) (kgo.Acks, error) {
	switch name {
	case "0":
		return kgo.NoAck(), nil
	case "1":
		return kgo.LeaderAck(), nil
	case "all":
		return kgo.AllISRAcks(), nil
	}
	return kgo.Acks{}, fmt.Errorf("acks %q: must be 0, 1 or all", name)
}
