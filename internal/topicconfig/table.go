package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// property is a row of the table: one setting, its Kafka name and its two directions.
//
// Invariant: set(get(s)) leaves s as it is, for every s that set can make. Admin tools read all
// properties, change one and write all of them back (IncrementalAlterConfigs came late, and not all
// use it); what they did not mean to change must not change.
type property struct {
	name    string
	kind    string // Kafka's ConfigDef type: tools parse the value by it
	allowed string // for people: the range, as errors and documentation name it
	doc     string
	get     func(*Settings) string
	// may leave s half changed when it fails: Set works on a copy
	set func(*Settings, string) error
}

const compressionType = "compression.type"

// flushMessages is the Kafka name of Settings.Fsync. Kafka syncs a log each time so many records
// were appended; with 1, before it answers. Numbers in between promise nothing about any single
// record, so we have none (ADR 0050).
const flushMessages = "flush.messages"

// table lists every property we know, sorted by name, which Set's binary search leans on. It is
// made when first used: most programs that import the package never do.
//
// Where we differ from Kafka's ranges, the reason stands at the row or at the constant:
// segment.bytes may be smaller, a dirty ratio is whole percents, an index has room for some
// entries, and what has nothing to act on here says so (Settings.WithoutEffect).
var table = sync.OnceValue(func() []property {
	return []property{
		{
			name: "cleanup.policy", kind: "list", allowed: "delete, compact or compact,delete",
			doc: "What happens to old records: delete drops whole segments by age and size, compact keeps the latest record of each key.",
			get: getCleanupPolicy, set: setCleanupPolicy,
		},
		levelProperty("compression.gzip.level", compress.Gzip),
		levelProperty("compression.lz4.level", compress.LZ4),
		{
			name: compressionType, kind: "string",
			allowed: "producer, uncompressed, gzip, snappy, lz4 or zstd",
			doc:     "The codec of what is stored; producer keeps each batch as its producer compressed it.",
			get:     getCompressionType, set: setCompressionType,
		},
		levelProperty("compression.zstd.level", compress.Zstd),
		durationProperty("delete.retention.ms",
			"How long a tombstone stays after the values it deletes are gone.", 0,
			func(s *Settings) *time.Duration { return &s.TombstoneRetention }),
		withoutEffect(durationProperty("file.delete.delay.ms",
			"A deleted file goes with its last reader.", 0,
			func(s *Settings) *time.Duration { return &s.WithoutEffect.FileDeleteDelay })),
		{
			name: flushMessages, kind: "long",
			allowed: "1 (durability Fsync) or 9223372036854775807 (Replicated)",
			doc:     "1: acknowledge, and show to consumers, only what is on the disk; else disks are synced in the background.",
			get:     getFlushMessages, set: setFlushMessages,
		},
		withoutEffect(limitProperty("flush.ms",
			"Disks are synced within about a second; for more, set flush.messages to 1.",
			FlushIntervalLeast.Milliseconds(),
			func(s *Settings) *time.Duration { return &s.WithoutEffect.FlushInterval })),
		countProperty(
			"index.interval.bytes",
			"How many bytes of records lie between two entries of a segment's index, of segments begun from now on.",
			0,
			1<<31-1,
			func(s *Settings) *int { return &s.IndexIntervalBytes },
		),
		limitProperty("max.compaction.lag.ms",
			"How long a record may stay uncleaned, whatever the dirty ratio.", 1,
			func(s *Settings) *time.Duration { return &s.MaxLag }),
		countProperty("max.message.bytes",
			"The largest record batch taken, as it comes in (compressed).", 0, 1<<31-1,
			func(s *Settings) *int { return &s.MessageBytesMax }),
		limitProperty("message.timestamp.after.max.ms",
			"How far in the future a producer's timestamp may lie, with CreateTime.", 0,
			func(s *Settings) *time.Duration { return &s.TimestampAfterMax }),
		limitProperty("message.timestamp.before.max.ms",
			"How far in the past a producer's timestamp may lie, with CreateTime.", 0,
			func(s *Settings) *time.Duration { return &s.TimestampBeforeMax }),
		{
			name: "message.timestamp.type", kind: "string", allowed: "CreateTime or LogAppendTime",
			doc: "Whose clock stamps the records: the producer's or the broker's.",
			get: getTimestampType, set: setTimestampType,
		},
		{
			name: "min.cleanable.dirty.ratio", kind: "double", allowed: "0 to 1 in steps of 0.01",
			doc: "The share of the log that must be dirty before a clean.",
			get: getDirtyRatio, set: setDirtyRatio,
		},
		durationProperty("min.compaction.lag.ms", "How long a record stays uncleaned at least.", 0,
			func(s *Settings) *time.Duration { return &s.MinLag }),
		countProperty("min.insync.replicas",
			"How many replicas must hold a record before an acks=all write is acknowledged.", 1,
			1<<15-1,
			func(s *Settings) *int { return &s.MinInSyncReplicas }),
		withoutEffect(flagProperty("preallocate", "Files grow as they are written.",
			func(s *Settings) *bool { return &s.WithoutEffect.Preallocate })),
		sizeProperty("retention.bytes",
			"How large a partition may grow before its oldest segments go; -1: any size.",
			Unlimited, 1<<63-1,
			func(s *Settings) *int64 { return &s.RetentionBytes }),
		{
			name: "retention.ms", kind: "long", allowed: "-1 (for ever) to 9223372036854775807",
			doc: "How long a record is kept at least; -1: for ever.",
			get: func(s *Settings) string { return formatLimit(s.RetentionTime, Unlimited) },
			set: func(s *Settings, value string) error {
				d, err := parseMilliseconds(value, Unlimited)
				s.RetentionTime = unlimitedIfBeyond(d)
				return err
			},
		},
		sizeProperty("segment.bytes", "A segment's largest size.", SegmentBytesMin, SegmentBytesMax,
			func(s *Settings) *int64 { return &s.SegmentBytes }),
		countProperty("segment.index.bytes",
			"The largest index file of a segment; a full one begins a new segment.",
			SegmentIndexBytesMin, SegmentIndexBytesMax,
			func(s *Settings) *int { return &s.SegmentIndexBytes }),
		durationProperty(
			"segment.jitter.ms",
			"How much earlier than segment.ms a segment may end, each by another share, so that not all end at once.",
			0,
			func(s *Settings) *time.Duration { return &s.SegmentJitter },
		),
		durationProperty("segment.ms", "How long a segment takes records at most.", 1,
			func(s *Settings) *time.Duration { return &s.SegmentAge }),
		flagProperty("unclean.leader.election.enable",
			"Let a replica lead that lacks acknowledged records when none that has them is up.",
			func(s *Settings) *bool { return &s.UncleanElection }),
	}
})

// getCleanupPolicy writes the policies in one order, so that equal settings show equal values
// (KIP-71: both at once are allowed). Kafka's empty list, which means neither, is not taken: a
// topic that keeps all says so by its retention.
func getCleanupPolicy(s *Settings) string {
	switch {
	case s.Compact && s.Delete:
		return "compact,delete"
	case s.Compact:
		return "compact"
	default:
		return "delete"
	}
}

// setCleanupPolicy replaces both policies; it keeps the invariant that one of them is set, as no
// name is empty.
func setCleanupPolicy(s *Settings, value string) error {
	var deletes, compacts bool
	for name := range strings.SplitSeq(value, ",") {
		// Kafka's lists may have spaces; naming a policy twice is refused, as Kafka 4 does
		switch name = strings.TrimSpace(name); {
		case name == "delete" && !deletes:
			deletes = true
		case name == "compact" && !compacts:
			compacts = true
		default:
			return errors.New("no such policy")
		}
	}
	s.Delete, s.Compact = deletes, compacts
	return nil
}

// getCompressionType writes Kafka's names: none is uncompressed there.
func getCompressionType(s *Settings) string {
	switch {
	case s.KeepCodec:
		return "producer"
	case s.Codec == compress.None:
		return "uncompressed"
	default:
		return s.Codec.String()
	}
}

// setCompressionType begins at the new codec's default level: a level of the old one may not even
// be a level of the new one.
func setCompressionType(s *Settings, value string) error {
	before := getCompressionType(s)
	switch value {
	case before:
		return nil
	case "producer":
		s.KeepCodec, s.Codec = true, compress.None
	case "uncompressed":
		s.KeepCodec, s.Codec = false, compress.None
	default:
		codec, err := compress.ParseCodec(value)
		if err != nil || codec == compress.None { // Kafka's name for none is uncompressed
			return errors.New("no such compression type")
		}
		s.KeepCodec, s.Codec = false, codec
	}
	s.CodecLevel = compress.LevelDefault
	return nil
}

// levelProperty is a codec's level (KIP-390). Kafka takes and ignores the levels of codecs that
// compression.type does not name; we refuse them, so that nobody waits for an effect.
func levelProperty(name string, codec compress.Codec) property {
	lowest, highest, _, _ := codec.Levels()
	standard := standardLevel(codec)
	return property{
		name: name, kind: "int",
		allowed: fmt.Sprintf("%d to %d, default %d, when compression.type is %s", lowest, highest,
			standard, codec),
		doc: fmt.Sprintf("The level of compression.type %s.", codec),
		get: func(s *Settings) string {
			if s.KeepCodec || s.Codec != codec || s.CodecLevel == compress.LevelDefault {
				return strconv.Itoa(standard)
			}
			return strconv.Itoa(s.CodecLevel)
		},
		set: func(s *Settings, value string) error { return setLevel(s, codec, value) },
	}
}

// standardLevel is how Kafka writes a codec's default level. Gzip's is -1, zlib's way to leave it
// open.
func standardLevel(codec compress.Codec) int {
	if codec == compress.Gzip {
		return -1
	}
	_, _, standard, _ := codec.Levels()
	return standard
}

// setLevel sets the level of codec, if that is the topic's codec. The codec's default, as
// standardLevel writes it, becomes LevelDefault, so that what get shows sets it again.
func setLevel(s *Settings, codec compress.Codec, value string) error {
	level, err := parseInteger(value, -1<<31+1, 1<<31-1)
	if err != nil {
		return err
	}
	if int(level) == standardLevel(codec) {
		level = compress.LevelDefault
	}
	isDefault := level == compress.LevelDefault
	switch {
	case s.KeepCodec || s.Codec != codec:
		if isDefault {
			return nil // what it has anyway: admin tools write back what they read
		}
		return fmt.Errorf("no effect while compression.type is %s", getCompressionType(s))
	case !isDefault:
		if err := codec.CheckLevel(int(level)); err != nil {
			return err
		}
	}
	s.CodecLevel = int(level)
	return nil
}

func getTimestampType(s *Settings) string {
	if s.TimestampType == record.LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// setTimestampType takes Kafka's two names (KIP-32), in their exact spelling.
func setTimestampType(s *Settings, value string) error {
	switch value {
	case "CreateTime":
		s.TimestampType = record.CreateTime
	case "LogAppendTime":
		s.TimestampType = record.LogAppendTime
	default:
		return errors.New("no such timestamp type")
	}
	return nil
}

// getFlushMessages writes Kafka's default, its largest number, for a topic that is synced in the
// background.
func getFlushMessages(s *Settings) string {
	if s.Fsync {
		return "1"
	}
	return strconv.FormatInt(math.MaxInt64, 10)
}

func setFlushMessages(s *Settings, value string) error {
	n, err := parseInteger(value, 1, math.MaxInt64)
	if err == nil && n != 1 && n != math.MaxInt64 {
		err = errors.New("a number in between promises nothing")
	}
	s.Fsync = n == 1
	return err
}
