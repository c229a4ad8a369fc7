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

// Unlimited is the value of a duration or size that has no limit.
const Unlimited = -1

// Bounds of segment.bytes. Kafka's own least is 1 MiB; ours is smaller, because a segment is the
// unit of cleaning and retention, and a small topic should not wait for a megabyte to be cleaned.
// Offsets and positions inside a segment are int32.
const (
	SegmentBytesMin = 1 << 10
	SegmentBytesMax = 1<<31 - 1
	// SegmentIndexBytesMin is larger than Kafka's 4: an index must have room for the entries of at
	// least one batch.
	SegmentIndexBytesMin = 1 << 10
	SegmentIndexBytesMax = 1<<31 - 1
)

// FlushIntervalLeast is the shortest flush.ms that is kept even without one.
const FlushIntervalLeast = time.Second

// Settings are a topic's settings, resolved: every field has its value. Default returns Kafka's
// defaults.
type Settings struct {
	Delete          bool // retention applies
	Compact         bool // the cleaner applies
	MinDirtyPercent int  // 0..100; a pass is due above it (docs/cleaner.md)
	// 0..99; how much of the cleaned section a pass may leave superseded (docs/adr/0087)
	MaxGarbagePercent int
	MinLag            time.Duration // a record stays uncleaned at least so long; 0: none
	// and at most so long, whatever the dirty ratio; Unlimited: none
	MaxLag time.Duration
	// from the pass that removed the older values on (reference X3), not from the tombstone's own
	// time
	TombstoneRetention time.Duration
	// compression type producer: batches keep the codec they came in, and Codec is None
	KeepCodec      bool
	Codec          compress.Codec
	CodecLevel     int           // compress.LevelDefault: the codec's default
	CleanCodec     CleanCodec    // of what the cleaner writes
	RetentionTime  time.Duration // Unlimited: for ever
	RetentionBytes int64         // Unlimited: any size
	SegmentBytes   int64
	SegmentAge     time.Duration // segment.ms: how long a segment takes records
	// a segment's age is cut by up to so much, each segment's by another share of it
	SegmentJitter     time.Duration
	SegmentIndexBytes int // of a segment's index file; a full one begins a new segment
	// of records between two entries of an index; 0: an entry for each batch
	IndexIntervalBytes int
	MessageBytesMax    int // of a batch, compressed, as it comes in and as it is stored
	TimestampType      record.TimestampType
	// how far a producer's timestamp may lie in the past; Unlimited: as far as it likes
	TimestampBeforeMax time.Duration
	TimestampAfterMax  time.Duration // and in the future; both count with CreateTime only
	// 1..32767; with fewer in sync, produce with acks -1 is refused
	MinInSyncReplicas int
	// Fsync: a record counts on this replica once it is on the disk; else once the operating system
	// has it.
	Fsync bool
	// UncleanElection: rather lose acknowledged records than wait for a replica that has them.
	UncleanElection bool
	// WithoutEffect is kept for those who set it.
	WithoutEffect WithoutEffect
}

// WithoutEffect are settings of Kafka's that have nothing to act on here: tools that set one find
// it again, and that is all.
type WithoutEffect struct {
	// flush.ms: disks are synced within a second anyhow, so it is at least that; Unlimited: Kafka's
	// default
	FlushInterval   time.Duration
	FileDeleteDelay time.Duration // file.delete.delay.ms: a file goes with its last reader
	Preallocate     bool          // preallocate: files grow as they are written
}

// CleanCodec is a codec for the cleaned section of a topic. The zero value is none: the cleaner
// takes the topic's.
type CleanCodec struct {
	Set   bool
	Codec compress.Codec
	Level int // compress.LevelDefault: the codec's default
}

// Default returns the settings of a topic that sets nothing.
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
		MessageBytesMax:    1<<20 + 12, // 1 MiB and the 12 bytes before a batch's length ends
		TimestampType:      record.CreateTime,
		TimestampBeforeMax: Unlimited,
		// KIP-1030: who writes microseconds for milliseconds hears of it
		TimestampAfterMax: time.Hour,
		MinInSyncReplicas: 1,
		WithoutEffect:     WithoutEffect{FlushInterval: Unlimited, FileDeleteDelay: time.Minute},
	}
}

// Property is one setting under its Kafka name, as DescribeConfigs shows it.
type Property struct {
	Name    string // e.g. cleanup.policy
	Value   string
	Default bool   // the value is the default
	Type    string // boolean, string, int, short, long, double, list: Kafka's ConfigDef types
	Doc     string
}

// ErrUnknownProperty is wrapped by Set's error about a name that is not in the table.
var ErrUnknownProperty = errors.New("unknown or unsupported property")

// Properties lists the settings under their Kafka names, sorted.
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

// Set changes one setting by its Kafka name, as a Kafka admin client gives it. The error names
// property, value and the allowed range; s is unchanged then. A level goes with the
// compression.type that is set at that moment: see SetAll.
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

// SetAll sets many properties, in an order that does not depend on the map, and then validates. All
// faults come joined, and s is unchanged if there is one.
func (s *Settings) SetAll(properties map[string]string) error {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	// compression.type decides which level has a meaning, so it goes first; the rest is sorted, for
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

// Validate checks what binds two settings together; Set checks each alone.
func (s Settings) Validate() error {
	if s.MaxLag != Unlimited && s.MinLag > s.MaxLag {
		return fmt.Errorf("min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)",
			s.MinLag.Milliseconds(), s.MaxLag.Milliseconds())
	}
	return nil
}
