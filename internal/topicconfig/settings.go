package topicconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// Unlimited is the value of a duration or size without a limit.
const Unlimited = -1

// Bounds of segment.bytes. Kafka's minimum is 1 MiB; this one is smaller, because segments are the
// unit of cleaning and retention, and a small topic should not have to grow to a megabyte before it
// is cleaned. Offsets and positions inside a segment are int32.
const (
	SegmentBytesMin = 1 << 10
	SegmentBytesMax = 1<<31 - 1
	// SegmentIndexBytesMin is above Kafka's 4: an index must hold the entries of at least one
	// batch.
	SegmentIndexBytesMin = 1 << 10
	SegmentIndexBytesMax = 1<<31 - 1
)

// FlushIntervalShortest is the smallest flush.ms that can be set: the interval of the background
// sync.
const FlushIntervalShortest = time.Second

// Settings are the resolved settings of a topic: every field has a value. Default returns Kafka's
// defaults.
type Settings struct {
	Delete          bool // retention applies
	Compact         bool // the cleaner applies
	MinDirtyPercent int  // 0..100: a pass starts above this dirty ratio (docs/cleaner.md)
	// MaxGarbagePercent is 0..99: the garbage that a pass may leave in the clean section (ADR
	// 0087).
	MaxGarbagePercent int
	MinLag            time.Duration // a record is not cleaned before this age; 0: none
	// MaxLag is the age at which a record must be cleaned whatever the dirty ratio; Unlimited:
	// none.
	MaxLag time.Duration
	// TombstoneRetention counts from the pass that removed the older values (reference X3), not
	// from the tombstone's timestamp.
	TombstoneRetention time.Duration
	// KeepCodec: batches keep their producer's codec (compression.type producer), and Codec is
	// None.
	KeepCodec      bool
	Codec          compress.Codec
	CodecLevel     int           // compress.LevelDefault: the codec's default
	CleanCodec     CleanCodec    // codec of batches that the cleaner writes
	RetentionTime  time.Duration // Unlimited: no limit
	RetentionBytes int64         // Unlimited: any size
	SegmentBytes   int64
	SegmentAge     time.Duration // segment.ms: the age at which a segment is rolled
	// SegmentJitter shortens the age of each segment by a random part of it.
	SegmentJitter     time.Duration
	SegmentIndexBytes int // size of an index file; a full one rolls the segment
	// IndexIntervalBytes is the distance of two index entries in bytes of records; 0: an entry for
	// each batch.
	IndexIntervalBytes int
	MessageBytesMax    int // size of a compressed batch, as received and as stored
	TimestampType      record.TimestampType
	// TimestampBeforeMax is how far in the past a producer's timestamp may be; Unlimited: any. Like
	// TimestampAfterMax it applies to CreateTime only.
	TimestampBeforeMax time.Duration
	TimestampAfterMax  time.Duration // the same in the future
	// MinInSyncReplicas is 1..32767: with a smaller ISR, acks=all is rejected.
	MinInSyncReplicas int
	// Fsync: a record counts on this replica once it is synced; otherwise once the operating system
	// has it.
	Fsync bool
	// UncleanElection: elect a replica that lacks acknowledged records if no other can lead.
	UncleanElection bool
	WithoutEffect   WithoutEffect
}

// WithoutEffect are settings of Kafka that have no effect here: they are stored only so that tools
// that set one can read it back.
type WithoutEffect struct {
	// FlushInterval is flush.ms. Logs are synced within a second anyway, so it is at least that;
	// Unlimited: Kafka's default.
	FlushInterval   time.Duration
	FileDeleteDelay time.Duration // file.delete.delay.ms: a file is deleted with its last reader
	Preallocate     bool          // preallocate: files grow as they are written
}

// CleanCodec is the codec of the clean section. The zero value is none: the cleaner uses the
// topic's.
type CleanCodec struct {
	Set   bool
	Codec compress.Codec
	Level int // compress.LevelDefault: the codec's default
}

// Default returns the settings of a topic without its own.
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
		// 1 MiB, and the 12 bytes up to the end of a batch's length field
		MessageBytesMax:    1<<20 + 12,
		TimestampType:      record.CreateTime,
		TimestampBeforeMax: Unlimited,
		// KIP-1030: rejects timestamps in microseconds.
		TimestampAfterMax: time.Hour,
		MinInSyncReplicas: 1,
		WithoutEffect:     WithoutEffect{FlushInterval: Unlimited, FileDeleteDelay: time.Minute},
	}
}

// Property is one setting under its Kafka name, as in DescribeConfigs.
type Property struct {
	Name    string // e.g. cleanup.policy
	Value   string
	Default bool   // the value is the default
	Type    string // boolean, string, int, short, long, double, list: Kafka's ConfigDef types
	Doc     string
}

// ErrUnknownProperty is wrapped by Set's error about a name that is not in the table.
var ErrUnknownProperty = errors.New("unknown or unsupported property")

// Properties returns the settings under their Kafka names, sorted.
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

// Set sets one setting by its Kafka name. The error names property, value and the allowed range; s
// is unchanged then. A level belongs to the compression.type that is set at that moment: see
// SetAll.
func (s *Settings) Set(name, value string) error {
	row := find(name)
	if row == nil {
		return fmt.Errorf("%w %q", ErrUnknownProperty, name)
	}
	changed := *s
	if err := row.set(&changed, value); err != nil {
		return fmt.Errorf("invalid value %q for property %s: %w (allowed: %s)", value, name, err,
			row.allowed)
	}
	*s = changed
	return nil
}

// SetAll sets properties, in an order that does not depend on the map, and validates the result.
// All errors are joined, and s is unchanged after one.
func (s *Settings) SetAll(properties map[string]string) error {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	// compression.type decides which level is valid, so it is set first; the others are sorted, for
	// stable messages.
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

// Validate checks what relates two settings; Set checks each alone.
func (s Settings) Validate() error {
	if s.MaxLag != Unlimited && s.MinLag > s.MaxLag {
		return fmt.Errorf("min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)",
			s.MinLag.Milliseconds(), s.MaxLag.Milliseconds())
	}
	return nil
}
