package plan

import (
	"errors"
	"fmt"
	"math"
)

// Input describes a topic. Counts and rates are for the whole topic, with one replica of each
// partition. Fields without a default must be set.
type Input struct {
	Keys        float64 // number of keys with a value
	RecordBytes float64 // mean size of key and value, before compression
	UpdateRate  float64 // updates of existing keys per second
	Partitions  int     // default 1
	Replicas    int     // default 1
	// number of brokers, among which replicas are evenly distributed; default: Replicas
	Brokers          int
	CompressionRatio float64 // size before compression divided by the size after it; default 1
	BatchRecords     float64 // records per batch; default 10
	// HotShare is the fraction of the keys that are ever updated, in (0, 1]; these keys are updated
	// equally often. The default 1 is the worst case.
	HotShare   float64
	Tombstones bool // some of the updates are deletes

	SegmentBytes float64 // default 1 GiB
	// DirtyRatio is the dirty ratio above which a pass is due (minDirtyPercent), in [0, 1).
	DirtyRatio   float64
	GarbageShare float64 // fraction of garbage that a pass may leave (maxGarbagePercent), in [0, 1)
	MemoryBytes  float64 // memory of one broker's cleaner; default 128 MiB
	Workers      int     // workers of one broker's cleaner; default 1
	// bytes that one broker's cleaner may read and write per second; 0: no limit
	IORate float64
	// RepublishRate is the rate at which producers write every key again, in records per second; 0:
	// unknown.
	RepublishRate float64
	// KafkaBufferBytes is the size of the dedupe buffer per thread of a Kafka cleaner, for a
	// comparison; 0: no comparison.
	KafkaBufferBytes float64
}

// withDefaults returns in with defaults in fields that are zero.
func (in Input) withDefaults() Input {
	setTo := func(field *float64, value float64) {
		if *field == 0 {
			*field = value
		}
	}
	setTo(&in.CompressionRatio, 1)
	setTo(&in.BatchRecords, 10)
	setTo(&in.HotShare, 1)
	setTo(&in.SegmentBytes, 1<<30)
	setTo(&in.MemoryBytes, 128<<20)
	in.Partitions, in.Replicas, in.Workers = max(in.Partitions, 1), max(in.Replicas, 1),
		max(in.Workers, 1)
	in.Brokers = max(in.Brokers, in.Replicas)
	return in
}

// Validate returns an error that lists all faults in an Input.
func (in Input) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	between := func(name string, value, low, high float64) {
		check(value >= low && value <= high, "%s %g: must be %g to %g", name, value, low, high)
	}
	between("keys", in.Keys, 1, 1e15)
	between("record size", in.RecordBytes, 1, 1<<31-1)
	between("update rate", in.UpdateRate, 0, 1e12)
	between("partitions", float64(in.Partitions), 0, 1e6)
	between("replicas", float64(in.Replicas), 0, 100)
	between("brokers", float64(in.Brokers), 0, 1e5)
	check(in.Brokers == 0 || in.Brokers >= in.Replicas,
		"brokers %d: a broker holds at most one of the %d replicas", in.Brokers, in.Replicas)
	check(in.CompressionRatio == 0 || in.CompressionRatio >= 0.5 && in.CompressionRatio <= 1000,
		"compression ratio %g: must be 0.5 to 1000",
		in.CompressionRatio)
	check(in.BatchRecords == 0 || in.BatchRecords >= 1 && in.BatchRecords <= 1e6,
		"records per batch %g: must be 1 to 1000000", in.BatchRecords)
	check(in.HotShare >= 0 && in.HotShare <= 1, "hot keys %g %%: must be above 0 and at most 100",
		in.HotShare*100)
	check(in.DirtyRatio >= 0 && in.DirtyRatio < 1,
		"dirty percent %g: must be 0 to 99; at 100 no pass is ever due", in.DirtyRatio*100)
	check(in.GarbageShare >= 0 && in.GarbageShare < 1, "garbage percent %g: must be 0 to 99",
		in.GarbageShare*100)
	check(in.SegmentBytes == 0 || in.SegmentBytes >= 1<<10 && in.SegmentBytes <= 1<<31-1,
		"segment size %g: must be 1Ki to 2Gi-1", in.SegmentBytes)
	check(in.MemoryBytes == 0 || in.MemoryBytes >= 1<<20, "memory %g: must be at least 1Mi",
		in.MemoryBytes)
	check(in.IORate >= 0 && in.RepublishRate >= 0, "rates must not be negative")
	check(in.KafkaBufferBytes == 0 || in.KafkaBufferBytes >= 1<<20,
		"Kafka's buffer %g: must be at least 1Mi", in.KafkaBufferBytes)
	return errors.Join(faults...)
}

// Disk is the disk space of a partition, of the topic with all replicas, or of a broker.
type Disk struct {
	LiveBytes float64 `json:"live_bytes"` // size of the latest record of each key
	// AfterBytes is the size of the log after a pass, including the garbage that the pass may
	// leave.
	AfterBytes   float64 `json:"after_pass_bytes"`
	DueBytes     float64 `json:"pass_due_bytes"` // size of the log when the next pass is due
	SidecarBytes float64 `json:"sidecar_bytes"`  // size of key sidecars, not included in DueBytes
	// WorkBytes is the size of the active segment, the output of a running pass, and the records
	// that are appended during the pass.
	WorkBytes     float64 `json:"work_bytes"`
	NeededBytes   float64 `json:"needed_bytes"`      // DueBytes + SidecarBytes + WorkBytes
	RepublishedTo float64 `json:"republished_bytes"` // upper bound after a republication
	Segments      float64 `json:"segments"`          // number of segments when the next pass is due
}

// times returns the total disk space of n partitions that each need d.
func (d Disk) times(n float64) Disk {
	return Disk{
		d.LiveBytes * n, d.AfterBytes * n, d.DueBytes * n, d.SidecarBytes * n, d.WorkBytes * n,
		d.NeededBytes * n, d.RepublishedTo * n, d.Segments * n,
	}
}

// Pass is the work of one pass over one partition.
type Pass struct {
	LogReadBytes        float64 `json:"log_read_bytes"`
	LogWrittenBytes     float64 `json:"log_written_bytes"`
	SidecarReadBytes    float64 `json:"sidecar_read_bytes"`
	SidecarWrittenBytes float64 `json:"sidecar_written_bytes"`
	FreedBytes          float64 `json:"freed_bytes"`
	// bytes of batches that a pass rebuilds, after decompression
	DecompressedBytes float64 `json:"decompressed_bytes"`
}

// Bytes returns the number of bytes that the pass reads and writes.
func (p Pass) Bytes() float64 {
	return p.LogReadBytes + p.LogWrittenBytes + p.SidecarReadBytes + p.SidecarWrittenBytes
}

// Memory is the memory for one worker's pass.
type Memory struct {
	BudgetBytes float64 `json:"budget_bytes"` // memory of one worker
	BitmapBytes float64 `json:"bitmap_bytes"`
	Slices      float64 `json:"slices"`
	// number of pass windows: the times that a pass reads the sidecars
	Windows float64 `json:"windows"`
}

// Plan is the result of Make. Times are in seconds. Unknown values, and times of events that never
// occur, are 0, because JSON cannot represent +Inf.
type Plan struct {
	Input Input `json:"-"`

	StoredRecordBytes float64 `json:"stored_record_bytes"`
	Partition         Disk    `json:"partition"`
	Topic             Disk    `json:"topic"`  // sum over all replicas of all partitions
	Broker            Disk    `json:"broker"` // average per broker

	// PassEverySeconds is the time between passes over a partition; 0: there are no updates, so no
	// pass is ever due.
	PassEverySeconds float64 `json:"pass_every_seconds"`
	Pass             Pass    `json:"pass"` // one pass over a partition, in the steady state
	// PassSeconds is the duration of a pass at the full I/O rate; 0: no I/O rate is set.
	PassSeconds float64 `json:"pass_seconds"`
	Memory      Memory  `json:"memory"`

	// for the topic, one replica of each partition
	AppendedBytesDay float64 `json:"appended_bytes_day"`
	// CleanerBytesDay is the number of bytes that cleaners read and write per day for all replicas
	// of the topic.
	CleanerBytesDay float64 `json:"cleaner_bytes_day"`
	// WriteAmplification is the number of records that the cleaner writes per appended record.
	WriteAmplification float64 `json:"write_amplification"`
	// BusyShare is the fraction of the I/O rate of a broker's cleaner that its passes use. If it is
	// above 1, the cleaner falls behind. 0: no I/O rate is set.
	BusyShare float64 `json:"busy_share"`

	Republication Republication `json:"republication"`
	Kafka         *Kafka        `json:"kafka,omitempty"`
	Notes         []string      `json:"notes"` // see function notes
}

// Republication is the cost of writing every key again.
type Republication struct {
	WriteSeconds float64 `json:"write_seconds"` // time to write every key; 0: no rate is set
	// one pass over a partition, after all keys were written
	Pass Pass `json:"pass"`
	// PassSeconds is the time in which a broker's cleaner cleans all of the broker's partitions, one
	// after the other, at the full I/O rate; 0: no I/O rate is set.
	PassSeconds float64 `json:"pass_seconds"`
}

// Kafka is the work of Apache Kafka's cleaner for the topic, for one replica of each partition.
type Kafka struct {
	KeysPerPass   float64   `json:"keys_per_pass"`
	Steady        KafkaCost `json:"steady"` // work each time that the dirty ratio is reached
	Republication KafkaCost `json:"republication"`
}

// KafkaCost contains the number of passes over one partition, and the I/O of all partitions.
type KafkaCost struct {
	Passes       float64 `json:"passes"`
	ReadBytes    float64 `json:"read_bytes"`
	WrittenBytes float64 `json:"written_bytes"`
}

// Make computes the plan for a topic. If the Input is invalid, the error lists all faults.
func Make(in Input) (Plan, error) {
	if err := in.Validate(); err != nil {
		return Plan{}, err
	}
	in = in.withDefaults()
	m := model{in: in, stored: in.RecordBytes / in.CompressionRatio,
		keys: in.Keys / float64(in.Partitions)}
	m.measure()
	p := Plan{Input: in, StoredRecordBytes: m.stored, Pass: m.steady(), Memory: m.memory()}
	perBroker := float64(in.Partitions*in.Replicas) / float64(in.Brokers)
	appended := in.UpdateRate / float64(in.Partitions) * m.stored // bytes per second and partition
	// number of passes per second and partition
	passes := 0.0
	if in.UpdateRate > 0 {
		passes = appended / m.dirty
		p.PassEverySeconds = 1 / passes
	}
	p.AppendedBytesDay = appended * float64(in.Partitions) * daySeconds
	p.CleanerBytesDay = passes * p.Pass.Bytes() * float64(in.Partitions*in.Replicas) * daySeconds
	p.WriteAmplification = p.Pass.LogWrittenBytes / m.dirty
	p.Republication = m.republication(perBroker)
	if in.IORate > 0 {
		p.PassSeconds = p.Pass.Bytes() / in.IORate
		p.BusyShare = passes * p.PassSeconds * perBroker
	}
	p.Partition = m.disk(appended * p.PassSeconds * math.Ceil(perBroker))
	p.Topic = p.Partition.times(float64(in.Partitions * in.Replicas))
	p.Broker = p.Partition.times(perBroker)
	p.Kafka = m.kafka()
	p.Notes = notes(p, m)
	return p, nil
}

const daySeconds = 24 * 60 * 60
