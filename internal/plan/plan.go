package plan

import (
	"errors"
	"fmt"
	"math"
)

// Input is what is known of a topic. Counts and rates are those of the whole topic, one copy of it.
// Fields without a default must be set.
type Input struct {
	Keys             float64 // that have a value
	RecordBytes      float64 // key and value, before compression
	UpdateRate       float64 // records a second
	Partitions       int     // default 1
	Replicas         int     // copies of each partition; default 1
	Brokers          int     // that share them evenly; default: Replicas
	CompressionRatio float64 // bytes before compression / after; default 1
	BatchRecords     float64 // records in a batch; default 10
	// HotShare is the share of keys that get all of the updates, in (0, 1]. Default 1: every key is
	// as likely as any other, the worst case.
	HotShare   float64
	Tombstones bool // some of the updates are deletes

	SegmentBytes float64 // default 1 GiB
	// in [0, 1): a pass is due above it (minDirtyPercent); default 0.5 is the command's to set
	DirtyRatio   float64
	GarbageShare float64 // in [0, 1): what a pass may leave for the sake of I/O (maxGarbagePercent)
	MemoryBytes  float64 // of one broker's cleaner; default 128 MiB
	Workers      int     // of one broker's cleaner; default 1
	IORate       float64 // of one broker's cleaner, bytes read and written a second; 0: no limit
	// RepublishRate is how fast the producers write every key once more, records a second; 0: the
	// time is not told.
	RepublishRate float64
	// KafkaBufferBytes is the dedupe buffer of a thread of Kafka's cleaner, to compare with; 0: no
	// comparison.
	KafkaBufferBytes float64
}

// withDefaults fills in what an Input may leave out.
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

// Validate tells all that is wrong with an Input.
func (in Input) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
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
		"compression ratio %g: must be 0.5 to 1000, bytes before / bytes after",
		in.CompressionRatio)
	check(in.BatchRecords == 0 || in.BatchRecords >= 1 && in.BatchRecords <= 1e6,
		"records a batch %g: must be 1 to 1000000", in.BatchRecords)
	check(in.HotShare >= 0 && in.HotShare <= 1, "hot keys %g %%: must be above 0, to 100",
		in.HotShare*100)
	check(in.DirtyRatio >= 0 && in.DirtyRatio < 1,
		"dirty percent %g: must be 0 to 99, for at 100 no pass is ever due", in.DirtyRatio*100)
	check(in.GarbageShare >= 0 && in.GarbageShare < 1, "garbage percent %g: must be 0 to 99",
		in.GarbageShare*100)
	check(in.SegmentBytes == 0 || in.SegmentBytes >= 1<<10 && in.SegmentBytes <= 1<<31-1,
		"segment size %g: must be 1Ki to 2Gi-1", in.SegmentBytes)
	check(in.MemoryBytes == 0 || in.MemoryBytes >= 1<<20, "memory %g: must be at least 1Mi",
		in.MemoryBytes)
	check(in.IORate >= 0 && in.RepublishRate >= 0, "a rate cannot be negative")
	check(in.KafkaBufferBytes == 0 || in.KafkaBufferBytes >= 1<<20,
		"Kafka's buffer %g: must be at least 1Mi", in.KafkaBufferBytes)
	return errors.Join(wrong...)
}

// Disk is bytes at different moments, of one partition, of the topic with all its copies, or of one
// broker.
type Disk struct {
	LiveBytes    float64 `json:"live_bytes"`       // the latest record of each key
	AfterBytes   float64 `json:"after_pass_bytes"` // behind a pass, with the garbage it may leave
	DueBytes     float64 `json:"pass_due_bytes"`   // when the next one is due
	SidecarBytes float64 `json:"sidecar_bytes"`    // beside DueBytes
	// active segment, output of a running pass, what is appended while it runs
	WorkBytes     float64 `json:"work_bytes"`
	NeededBytes   float64 `json:"needed_bytes"` // DueBytes + SidecarBytes + WorkBytes
	RepublishedTo float64 `json:"republished_bytes"`
	Segments      float64 `json:"segments"` // at DueBytes
}

// times returns n of them.
func (d Disk) times(n float64) Disk {
	return Disk{
		d.LiveBytes * n, d.AfterBytes * n, d.DueBytes * n, d.SidecarBytes * n, d.WorkBytes * n,
		d.NeededBytes * n, d.RepublishedTo * n, d.Segments * n,
	}
}

// Pass is what one pass over one partition does.
type Pass struct {
	LogReadBytes        float64 `json:"log_read_bytes"`
	LogWrittenBytes     float64 `json:"log_written_bytes"`
	SidecarReadBytes    float64 `json:"sidecar_read_bytes"`
	SidecarWrittenBytes float64 `json:"sidecar_written_bytes"`
	FreedBytes          float64 `json:"freed_bytes"`
	DecompressedBytes   float64 `json:"decompressed_bytes"` // of batches that are rebuilt
}

// Bytes is all I/O of a pass.
func (p Pass) Bytes() float64 {
	return p.LogReadBytes + p.LogWrittenBytes + p.SidecarReadBytes + p.SidecarWrittenBytes
}

// Memory is what one worker's pass needs.
type Memory struct {
	BudgetBytes float64 `json:"budget_bytes"` // of one worker
	BitmapBytes float64 `json:"bitmap_bytes"`
	Slices      float64 `json:"slices"`
	Windows     float64 `json:"windows"` // how often the sidecars are read
}

// Plan is the answer. Times are in seconds; +Inf never stands in it: what never happens, or is not
// known, is 0.
type Plan struct {
	Input Input `json:"-"`

	StoredRecordBytes float64 `json:"stored_record_bytes"`
	Partition         Disk    `json:"partition"`
	Topic             Disk    `json:"topic"`  // all partitions and replicas
	Broker            Disk    `json:"broker"` // the average one

	// of a partition; 0: without updates none is due
	PassEverySeconds float64 `json:"pass_every_seconds"`
	Pass             Pass    `json:"pass"` // of a partition, in the steady state
	// at the I/O rate, if it had all of it; 0: no limit is set
	PassSeconds float64 `json:"pass_seconds"`
	Memory      Memory  `json:"memory"`

	AppendedBytesDay float64 `json:"appended_bytes_day"` // of the topic, one copy
	// of the topic, all copies: read and written
	CleanerBytesDay float64 `json:"cleaner_bytes_day"`
	// WriteAmplification is records that the cleaner writes for each one appended.
	WriteAmplification float64 `json:"write_amplification"`
	// of the I/O rate of a broker's cleaner; above 1 it falls behind; 0: no limit is set
	BusyShare float64 `json:"busy_share"`

	Republication Republication `json:"republication"`
	Kafka         *Kafka        `json:"kafka,omitempty"`
	Notes         []string      `json:"notes"` // limits that apply here
}

// Republication is what it costs to write every key once more.
type Republication struct {
	WriteSeconds float64 `json:"write_seconds"` // 0: no rate is set
	Pass         Pass    `json:"pass"`          // of a partition, once all is written
	// of a broker's partitions, one after the other, at the I/O rate; 0: no limit is set
	PassSeconds float64 `json:"pass_seconds"`
}

// Kafka is what Apache Kafka's cleaner would do, for one copy of the topic.
type Kafka struct {
	KeysPerPass   float64   `json:"keys_per_pass"`
	Steady        KafkaCost `json:"steady"` // each time the dirty ratio is reached
	Republication KafkaCost `json:"republication"`
}

// KafkaCost is passes of one partition, and bytes of all of them.
type KafkaCost struct {
	Passes       float64 `json:"passes"`
	ReadBytes    float64 `json:"read_bytes"`
	WrittenBytes float64 `json:"written_bytes"`
}

// Make computes the plan. It fails with all that is wrong with the Input.
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
	appended := in.UpdateRate / float64(in.Partitions) * m.stored // bytes a second, of a partition
	passes := 0.0                                                 // a second, of a partition
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

// daySeconds is a day.
const daySeconds = 24 * 60 * 60
