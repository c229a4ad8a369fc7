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

// property is one row of the table. It contains a setting's Kafka name, and converts the setting
// between its text and its field in Settings.
//
// Invariant: set(get(s)) does not change s, for every s that set can produce. This matters because
// an admin tool that does not use IncrementalAlterConfigs reads all properties, changes one, and
// writes all of them back. The other settings must then not change.
type property struct {
	name    string
	kind    string // Kafka's ConfigDef type, which tools need to parse the value
	allowed string // description of the allowed values, for errors and documentation
	doc     string
	get     func(*Settings) string
	// set may leave s partly changed after an error, because Set calls it with a copy.
	set func(*Settings, string) error
}

const compressionType = "compression.type"

// flushMessages is the Kafka name of Settings.Fsync. Kafka syncs a log whenever this number of
// records has been appended; for 1, it syncs before it responds. A number between 1 and the largest
// value guarantees nothing about a single record, so it is rejected (ADR 0050).
const flushMessages = "flush.messages"

// table returns the rows of all properties, sorted by name, which the binary search in find
// requires. The rows are built on first use, because most programs that import this package do not
// need them.
//
// Some ranges differ from Kafka's: segment.bytes may be smaller, and segment.index.bytes must be
// larger. The reasons are given at the constants.
var table = sync.OnceValue(func() []property {
	return []property{
		{
			name: "cleanup.policy", kind: "list", allowed: "delete, compact or compact,delete",
			doc: "What happens to old records: delete removes whole segments by age and size, " +
				"compact keeps the latest record of each key.",
			get: getCleanupPolicy, set: setCleanupPolicy,
		},
		levelProperty("compression.gzip.level", compress.Gzip),
		levelProperty("compression.lz4.level", compress.LZ4),
		{
			name: compressionType, kind: "string",
			allowed: "producer, uncompressed, gzip, snappy, lz4 or zstd",
			doc:     "The codec of stored batches; producer keeps each batch as its producer compressed it.",
			get:     getCompressionType, set: setCompressionType,
		},
		levelProperty("compression.zstd.level", compress.Zstd),
		durationProperty("delete.retention.ms",
			"How long a tombstone is kept after the older records of its key were removed.", 0,
			func(s *Settings) *time.Duration { return &s.TombstoneRetention }),
		withoutEffect(durationProperty("file.delete.delay.ms",
			"A deleted file is removed when its last reader has closed it.", 0,
			func(s *Settings) *time.Duration { return &s.WithoutEffect.FileDeleteDelay })),
		{
			name: flushMessages, kind: "long",
			allowed: "1 (durability Fsync) or 9223372036854775807 (Replicated)",
			doc: "1: records are synced before they are acknowledged and visible to consumers; " +
				"otherwise logs are synced in the background.",
			get: getFlushMessages, set: setFlushMessages,
		},
		withoutEffect(limitProperty("flush.ms",
			"Logs are synced within about a second; to sync every record, set flush.messages to 1.",
			FlushIntervalShortest.Milliseconds(),
			func(s *Settings) *time.Duration { return &s.WithoutEffect.FlushInterval })),
		countProperty(
			"index.interval.bytes",
			"The bytes of records between two entries of a segment's index; applies to new segments.",
			0,
			1<<31-1,
			func(s *Settings) *int { return &s.IndexIntervalBytes },
		),
		limitProperty("max.compaction.lag.ms",
			"The longest time that a record may stay uncleaned, whatever the dirty ratio.", 1,
			func(s *Settings) *time.Duration { return &s.MaxLag }),
		countProperty("max.decompressed.message.bytes",
			"The largest size of a record of a compressed batch, after it is decompressed, that is "+
				"accepted from producers.", 1, RecordBytesUnlimited,
			func(s *Settings) *int { return &s.RecordBytesMax }),
		countProperty("max.message.bytes",
			"The largest compressed size of a record batch that is accepted.", 0, 1<<31-1,
			func(s *Settings) *int { return &s.MessageBytesMax }),
		limitProperty("message.timestamp.after.max.ms",
			"How far in the future a producer's timestamp may be, with CreateTime.", 0,
			func(s *Settings) *time.Duration { return &s.TimestampAfterMax }),
		limitProperty("message.timestamp.before.max.ms",
			"How far in the past a producer's timestamp may be, with CreateTime.", 0,
			func(s *Settings) *time.Duration { return &s.TimestampBeforeMax }),
		{
			name: "message.timestamp.type", kind: "string", allowed: "CreateTime or LogAppendTime",
			doc: "The source of record timestamps: the producer (CreateTime) or the broker (LogAppendTime).",
			get: getTimestampType, set: setTimestampType,
		},
		{
			name: "min.cleanable.dirty.ratio", kind: "double", allowed: "0 to 1",
			doc: "The share of the log that must be dirty before it is cleaned.",
			get: getDirtyRatio, set: setDirtyRatio,
		},
		durationProperty("min.compaction.lag.ms",
			"The shortest time that a record stays uncleaned.", 0,
			func(s *Settings) *time.Duration { return &s.MinLag }),
		countProperty("min.insync.replicas",
			"The smallest number of in-sync replicas with which a write with acks=all is accepted.", 1,
			1<<15-1,
			func(s *Settings) *int { return &s.MinInSyncReplicas }),
		withoutEffect(flagProperty("preallocate", "Files grow as they are written.",
			func(s *Settings) *bool { return &s.WithoutEffect.Preallocate })),
		sizeProperty("retention.bytes",
			"The size of a partition above which its oldest segments are deleted; -1: no limit.",
			Unlimited, 1<<63-1,
			func(s *Settings) *int64 { return &s.RetentionBytes }),
		{
			name: "retention.ms", kind: "long", allowed: "-1 (no limit) to 9223372036854775807",
			doc: "The shortest time that a record is kept; -1: no limit.",
			get: func(s *Settings) string { return formatLimit(s.RetentionTime, Unlimited) },
			set: func(s *Settings, value string) error {
				d, err := parseMilliseconds(value, Unlimited)
				s.RetentionTime = unlimitedIfBeyond(d)
				return err
			},
		},
		sizeProperty("segment.bytes", "The largest size of a segment.", SegmentBytesMin,
			SegmentBytesMax,
			func(s *Settings) *int64 { return &s.SegmentBytes }),
		countProperty("segment.index.bytes",
			"The largest size of an index file; a full index file rolls its segment.",
			SegmentIndexBytesMin, SegmentIndexBytesMax,
			func(s *Settings) *int { return &s.SegmentIndexBytes }),
		durationProperty(
			"segment.jitter.ms",
			"The maximum of the random time by which each segment is rolled before segment.ms, "+
				"so that segments are not all rolled at once.",
			0,
			func(s *Settings) *time.Duration { return &s.SegmentJitter },
		),
		durationProperty("segment.ms",
			"The age at which a segment is rolled.", 1,
			func(s *Settings) *time.Duration { return &s.SegmentAge }),
		flagProperty("unclean.leader.election.enable",
			"Elect a replica that may lack acknowledged records if no in-sync replica is up.",
			func(s *Settings) *bool { return &s.UncleanElection }),
	}
})

// getCleanupPolicy returns the policies in the order in which they were set, as Kafka does. KIP-71
// allows both policies at once.
func getCleanupPolicy(s *Settings) string {
	switch {
	case s.Compact && s.Delete && s.DeleteFirst:
		return "delete,compact"
	case s.Compact && s.Delete:
		return "compact,delete"
	case s.Compact:
		return "compact"
	default:
		return "delete"
	}
}

// setCleanupPolicy replaces both policies. It rejects Kafka's empty list, which means no policy. To
// keep all records, a topic must set unlimited retention instead.
func setCleanupPolicy(s *Settings, value string) error {
	var deletes, compacts, first bool
	for name := range strings.SplitSeq(value, ",") {
		// Kafka permits spaces in lists and ignores repeated values.
		switch strings.TrimSpace(name) {
		case "delete":
			first = first || !compacts
			deletes = true
		case "compact":
			compacts = true
		default:
			return errors.New("unknown policy")
		}
	}
	s.Delete, s.Compact, s.DeleteFirst = deletes, compacts, first && compacts
	return nil
}

// getCompressionType returns the codec's Kafka name. For compress.None this is "uncompressed".
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

// setCompressionType sets the codec. If the codec changes, the level becomes the new codec's
// default, because the old level may be invalid for it.
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
		if err != nil || codec == compress.None { // Kafka's name is "uncompressed", not "none"
			return errors.New("unknown compression type")
		}
		s.KeepCodec, s.Codec = false, codec
	}
	s.CodecLevel = compress.LevelDefault
	return nil
}

// levelProperty returns the row for a codec's level (KIP-390). Kafka ignores the level of a codec
// that compression.type does not name. Here such a level is rejected, because a client would expect
// that it has an effect.
func levelProperty(name string, codec compress.Codec) property {
	lowest, highest, _, _ := codec.Levels()
	standard := DefaultLevel(codec)
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

// DefaultLevel returns a codec's default level as Kafka prints it. For gzip it is -1, as in zlib.
func DefaultLevel(codec compress.Codec) int {
	if codec == compress.Gzip {
		return -1
	}
	_, _, standard, _ := codec.Levels()
	return standard
}

// setLevel sets a codec's level. If the topic uses another codec, setLevel rejects every level
// except the default. A level equal to DefaultLevel becomes LevelDefault, so that the printed value
// can be set again.
func setLevel(s *Settings, codec compress.Codec, value string) error {
	level, err := parseInteger(value, -1<<31+1, 1<<31-1)
	if err != nil {
		return err
	}
	if int(level) == DefaultLevel(codec) {
		level = compress.LevelDefault
	}
	isDefault := level == compress.LevelDefault
	switch {
	case s.KeepCodec || s.Codec != codec:
		if isDefault {
			return nil // no change; admin tools write back all values that they have read
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

// setTimestampType accepts Kafka's two names (KIP-32), with exact spelling.
func setTimestampType(s *Settings, value string) error {
	switch value {
	case "CreateTime":
		s.TimestampType = record.CreateTime
	case "LogAppendTime":
		s.TimestampType = record.LogAppendTime
	default:
		return errors.New("unknown timestamp type")
	}
	return nil
}

// getFlushMessages returns 1 for a topic that syncs each record. Otherwise the log is synced in the
// background, and getFlushMessages returns Kafka's default, the largest int64.
func getFlushMessages(s *Settings) string {
	if s.Fsync {
		return "1"
	}
	return strconv.FormatInt(math.MaxInt64, 10)
}

func setFlushMessages(s *Settings, value string) error {
	n, err := parseInteger(value, 1, math.MaxInt64)
	if err == nil && n != 1 && n != math.MaxInt64 {
		err = errors.New("only 1 and the largest value have an effect")
	}
	s.Fsync = n == 1
	return err
}
