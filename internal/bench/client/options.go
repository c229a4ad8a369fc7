package client

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/bench/tickets"
)

// Limits on the options.
const (
	recordsMax    = 1 << 40
	batchBytesMin = 1 << 10
	batchBytesMax = 64 << 20
	fetchBytesMax = 512 << 20 // half of the limit on one response, which newConsumers sets
	clientsMax    = 1000
	partitionsMax = 10_000
	durationMax   = 24 * time.Hour
	lingerMax     = time.Minute
	// recordOverhead is an upper bound on the size of a batch with one record, without the record's
	// key and value.
	recordOverhead = 256
)

// Target is the topic to measure and the cluster that contains it.
type Target struct {
	Bootstrap []string // HOST:PORT of brokers of the cluster
	Topic     string
	Security  Security
	// Done counts the records during the run, to display the progress; nil: records are not counted.
	Done *atomic.Int64
}

// count counts one record in Done.
func (t Target) count() {
	if t.Done != nil {
		t.Done.Add(1)
	}
}

func (t Target) validate() []error {
	var faults []error
	if len(t.Bootstrap) == 0 {
		faults = append(faults, errors.New("no bootstrap address"))
	}
	for _, address := range t.Bootstrap {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			faults = append(faults, fmt.Errorf("bootstrap address %q: want HOST:PORT", address))
		}
	}
	if (t.Security.User == "") != (t.Security.PasswordFile == "") {
		faults = append(faults, errors.New("a user needs a password file, and the reverse"))
	}
	if t.Topic == "" {
		faults = append(faults, errors.New("no topic"))
	}
	return faults
}

// Expected returns the number of records that a run sends if the cluster can keep up with the rate.
func (o ProduceOptions) Expected() int64 {
	if o.Rate == 0 {
		return o.Records
	}
	return min(o.Records, int64(float64(o.Rate)*o.Duration.Seconds()))
}

// ProduceOptions configures a measurement of producing.
type ProduceOptions struct {
	Target
	Partitions int  // number of partitions if the topic is created; 1 to 10,000
	Create     bool // creation of a missing topic, with the default replication factor
	Records    int64
	// maximum time of the run; the run ends earlier when Records records were sent
	Duration    time.Duration
	RecordBytes int // size of a record's key and value
	// Rate is the number of records per second of all producers together; 0: as fast as possible.
	Rate       int
	Acks       string        // "0", "1" or "all"
	Codec      string        // "none", "gzip", "snappy", "lz4" or "zstd"
	BatchBytes int           // maximum size of a batch
	Linger     time.Duration // time that a batch waits for more records
	Producers  int           // number of clients, each with its own connections
	Seed       uint64        // seed from which the records are generated
	// Transaction is the time after which a producer commits its transaction and begins another one.
	// TransactionRecords is the number of records after which it does so. 0 means never. If both are
	// 0, the producers use no transactions.
	Transaction        time.Duration
	TransactionRecords int64
}

// transactional reports whether the producers use transactions.
func (o ProduceOptions) transactional() bool {
	return o.Transaction > 0 || o.TransactionRecords > 0
}

// Validate returns an error that contains all faults in the options.
func (o ProduceOptions) Validate() error {
	faults := o.validate()
	_, err := parseCodec(o.Codec)
	faults = append(faults, err)
	_, err = parseAcks(o.Acks)
	faults = append(faults, err,
		between("partitions", o.Partitions, 1, partitionsMax),
		between("records", o.Records, 1, recordsMax),
		between("duration", o.Duration, time.Millisecond, durationMax),
		between("rate", o.Rate, 0, 1_000_000_000),
		between("batch bytes", o.BatchBytes, batchBytesMin, batchBytesMax),
		between("linger", o.Linger, 0, lingerMax),
		between("producers", o.Producers, 1, clientsMax),
		between("transaction", o.Transaction, 0, lingerMax),
		between("transaction records", o.TransactionRecords, 0, recordsMax))
	if o.transactional() && o.Acks != "all" {
		faults = append(faults, fmt.Errorf("acks %q: must be all in transactions", o.Acks))
	}
	if o.RecordBytes < tickets.SizeMin || o.RecordBytes > o.BatchBytes-recordOverhead {
		faults = append(
			faults,
			fmt.Errorf("record bytes %d: must be %d to %d, so that it fits in a batch of %d",
				o.RecordBytes, tickets.SizeMin, o.BatchBytes-recordOverhead, o.BatchBytes),
		)
	}
	return errors.Join(faults...)
}

// ConsumeOptions configures a measurement of consuming.
type ConsumeOptions struct {
	Target
	// Latest selects only records that are produced from now on, which measures the end-to-end
	// latency. Otherwise the run reads the records that the topic contains now.
	Latest  bool
	Records int64 // maximum number of records; 0: no limit
	// The run ends after Duration, after Records records, or when no records arrive.
	Duration  time.Duration
	Consumers int           // number of clients, which share the partitions
	MaxWait   time.Duration // maximum time that a fetch waits for records
	MaxBytes  int           // maximum size of a fetch response
}

// Validate returns an error that contains all faults in the options.
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

func parseCodec(name string) (kgo.CompressionCodec, error) {
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

func parseAcks(name string) (kgo.Acks, error) {
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
