package topicconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// Unlimited is the value of a duration or size that means no limit.
const Unlimited = -1

// Bounds for segment.bytes. Kafka's minimum is 1 MiB. The minimum here is smaller, because segments
// are the unit of cleaning and retention: a small topic must not have to grow to a megabyte before
// it is cleaned. The maximum exists because offsets and positions within a segment are int32.
const (
	SegmentBytesMin = 1 << 10
	SegmentBytesMax = 1<<31 - 1
	// SegmentIndexBytesMin is above Kafka's minimum of 4, because an index must have space for the
	// entries of at least one batch.
	SegmentIndexBytesMin = 1 << 10
	SegmentIndexBytesMax = 1<<31 - 1
)

// RecordBytesUnlimited is the default of max.decompressed.message.bytes. It is the size of Java's
// largest array.
const RecordBytesUnlimited = 1<<31 - 9

// FlushIntervalShortest is the smallest allowed flush.ms. It is the interval of the background
// sync.
const FlushIntervalShortest = time.Second

// Settings contains a topic's resolved settings: every field has a value.
type Settings struct {
	Delete      bool // true: segments are deleted by age and size
	DeleteFirst bool // true: the list is written delete,compact; the order has no effect
	Compact     bool // true: the cleaner compacts the log
	// MinDirtyPercent (0..100) is the dirty ratio above which a pass starts
	// (docs/internals/cleaner.md).
	MinDirtyPercent float64
	// MaxGarbagePercent (0..99) is the percentage of garbage that a pass may leave in the clean
	// section (ADR 0087).
	MaxGarbagePercent int
	MinLag            time.Duration // minimum age at which a record is cleaned
	// MaxLag is the age at which a record must be cleaned, whatever the dirty ratio is; Unlimited:
	// there is no such age.
	MaxLag time.Duration
	// TombstoneRetention is how long a removable tombstone is kept. The time starts with the pass that
	// removed the last older record of the key, not with the tombstone's timestamp.
	TombstoneRetention time.Duration
	// KeepCodec (compression.type producer) means that batches keep their producer's codec. Codec is
	// then None.
	KeepCodec      bool
	Codec          compress.Codec
	CodecLevel     int           // compress.LevelDefault: the codec's default
	CleanCodec     CleanCodec    // codec of batches that the cleaner writes
	RetentionTime  time.Duration // Unlimited: no limit
	RetentionBytes int64         // Unlimited: no limit
	SegmentBytes   int64
	SegmentAge     time.Duration // segment.ms: age at which a segment is rolled
	// SegmentJitter is the maximum random time by which a segment is rolled before it reaches
	// SegmentAge.
	SegmentJitter     time.Duration
	SegmentIndexBytes int // maximum size of an index file; a full index file rolls the segment
	// IndexIntervalBytes is the number of bytes of records between two index entries; 0: each batch
	// has an entry.
	IndexIntervalBytes int
	MessageBytesMax    int // maximum compressed size of a batch, both as received and as stored
	// RecordBytesMax is the maximum size of each decompressed record in a compressed batch from a
	// producer; RecordBytesUnlimited: no limit.
	RecordBytesMax int
	TimestampType  record.TimestampType
	// TimestampBeforeMax is how far in the past a producer's timestamp may be; Unlimited: no
	// limit. Like TimestampAfterMax, it applies only to CreateTime.
	TimestampBeforeMax time.Duration
	TimestampAfterMax  time.Duration // maximum distance to the future; Unlimited: no limit
	// MinInSyncReplicas (1..32767) is the minimum ISR size with which a produce request with acks=all
	// is accepted.
	MinInSyncReplicas int
	// Fsync means that a record counts as stored on a replica only when it is synced to disk. Without
	// Fsync, a record counts as stored when the operating system has received it.
	Fsync bool
	// UncleanElection allows the election of a replica that lacks acknowledged records if no other
	// replica can lead.
	UncleanElection bool
	WithoutEffect   WithoutEffect
}

// WithoutEffect contains Kafka settings that have no effect here. They are stored only so that a
// tool that has set one can read it back.
type WithoutEffect struct {
	// FlushInterval is Kafka's property flush.ms. It is at least one second; logs are synced within
	// about a second anyway. Unlimited is Kafka's default.
	FlushInterval time.Duration
	// FileDeleteDelay is Kafka's property file.delete.delay.ms. It has no effect, because a deleted
	// file is removed when its last reader has closed it.
	FileDeleteDelay time.Duration
	// Preallocate is Kafka's property preallocate. It has no effect, because files grow as they are
	// written.
	Preallocate bool
}

// CleanCodec is the codec for a topic's clean section. If Set is false, no separate codec is set,
// and the cleaner uses the topic's codec.
type CleanCodec struct {
	Set   bool
	Codec compress.Codec
	Level int // compress.LevelDefault: the codec's default
}

// String returns the codec and, unless it is the default, its level. It returns "" if no codec is
// set.
func (c CleanCodec) String() string {
	switch {
	case !c.Set:
		return ""
	case c.Level == compress.LevelDefault:
		return c.Codec.String()
	}
	return c.Codec.String() + " " + strconv.Itoa(c.Level)
}

// Default returns the settings of a topic that sets none, which are Kafka's defaults.
func Default() Settings {
	return Settings{
		Delete:             true,
		MinDirtyPercent:    50,
		MaxGarbagePercent:  20,
		MaxLag:             Unlimited,
		TombstoneRetention: 24 * time.Hour,
		KeepCodec:          true,
		CodecLevel:         compress.LevelDefault,
		RetentionTime:      7 * 24 * time.Hour,
		RetentionBytes:     Unlimited,
		SegmentBytes:       1 << 30,
		SegmentAge:         7 * 24 * time.Hour,
		SegmentIndexBytes:  10 << 20,
		IndexIntervalBytes: 4096,
		// 1 MiB plus the 12 bytes of a batch's base offset and length field
		MessageBytesMax:    1<<20 + 12,
		RecordBytesMax:     RecordBytesUnlimited,
		TimestampType:      record.CreateTime,
		TimestampBeforeMax: Unlimited,
		// A limit of one hour (KIP-1030) rejects timestamps that are in microseconds by mistake.
		TimestampAfterMax: time.Hour,
		MinInSyncReplicas: 1,
		WithoutEffect:     WithoutEffect{FlushInterval: Unlimited, FileDeleteDelay: time.Minute},
	}
}

// Property is one setting with its Kafka name, as in DescribeConfigs.
type Property struct {
	Name    string // e.g. cleanup.policy
	Value   string
	Default bool   // the value is the default
	Type    string // boolean, string, int, short, long, double, list: Kafka's ConfigDef types
	Doc     string
}

// ErrUnknownProperty is the error for a property name that is not in the table. Other errors wrap
// it.
var ErrUnknownProperty = errors.New("unknown or unsupported property")

// Properties returns the settings with their Kafka names, sorted.
func (s Settings) Properties() []Property {
	standard := Default()
	all := make([]Property, 0, len(table()))
	for _, p := range table() {
		value := p.get(&s)
		all = append(all, Property{
			Name: p.name, Value: value, Default: value == p.get(&standard), Type: p.kind,
			Doc: p.doc + " Allowed: " + p.allowed + ".",
		})
	}
	return all
}

// Set sets one setting by its Kafka name. If Set fails, s does not change, and the error contains
// the property, the value and the allowed range. Set checks a compression level against the current
// compression.type; SetAll sets the type first.
func (s *Settings) Set(name, value string) error {
	row := find(name)
	if row == nil {
		return checkIgnored(name, value)
	}
	changed := *s
	if err := row.set(&changed, value); err != nil {
		return fmt.Errorf("invalid value %q for property %s: %w (allowed: %s)", value, name, err,
			row.allowed)
	}
	*s = changed
	return nil
}

// SetAll sets properties in a fixed order, and validates the result. If SetAll fails, s does not
// change, and the error joins the errors of all properties.
func (s *Settings) SetAll(properties map[string]string) error {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	// Set compression.type first, because it determines which levels are valid. Sort the other
	// properties, so that the error's text is always the same.
	slices.SortFunc(names, func(a, b string) int {
		if (a == compressionType) != (b == compressionType) {
			if a == compressionType {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	changed := *s
	var faults []error
	for _, name := range names {
		faults = append(faults, changed.Set(name, properties[name]))
	}
	if err := errors.Join(append(faults, changed.Validate())...); err != nil {
		return err
	}
	*s = changed
	return nil
}

// Validate checks conditions between two settings. Set checks each setting alone.
func (s Settings) Validate() error {
	if s.MaxLag != Unlimited && s.MinLag > s.MaxLag {
		return fmt.Errorf("min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)",
			s.MinLag.Milliseconds(), s.MaxLag.Milliseconds())
	}
	return nil
}
