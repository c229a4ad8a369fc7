package topicconfig

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestDefaultsMatchKafka compares the defaults with the topic configurations in Kafka 4.3's
// documentation.
func TestDefaultsMatchKafka(t *testing.T) {
	want := map[string]string{
		"cleanup.policy":                  "delete",
		"compression.gzip.level":          "-1",
		"compression.lz4.level":           "9",
		"compression.type":                "producer",
		"compression.zstd.level":          "3",
		"delete.retention.ms":             "86400000",
		"file.delete.delay.ms":            "60000",
		"flush.messages":                  "9223372036854775807",
		"flush.ms":                        "9223372036854775807",
		"index.interval.bytes":            "4096",
		"max.compaction.lag.ms":           "9223372036854775807",
		"max.decompressed.message.bytes":  "2147483639",
		"max.message.bytes":               "1048588",
		"message.timestamp.after.max.ms":  "3600000",
		"message.timestamp.before.max.ms": "9223372036854775807",
		"message.timestamp.type":          "CreateTime",
		"min.cleanable.dirty.ratio":       "0.5",
		"min.compaction.lag.ms":           "0",
		"min.insync.replicas":             "1",
		"preallocate":                     "false",
		"retention.bytes":                 "-1",
		"retention.ms":                    "604800000",
		"segment.bytes":                   "1073741824",
		"segment.index.bytes":             "10485760",
		"segment.jitter.ms":               "0",
		"segment.ms":                      "604800000",
		"unclean.leader.election.enable":  "false",
	}
	properties := Default().Properties()
	for _, p := range properties {
		if value, ok := want[p.Name]; !ok || p.Value != value || !p.Default {
			t.Errorf("%s: got %s (default: %v), want %s", p.Name, p.Value, p.Default, value)
		}
		if p.Type == "" || p.Doc == "" {
			t.Errorf("%s has no type or no documentation", p.Name)
		}
	}
	if len(properties) != len(want) {
		t.Errorf("got %d properties, want %d", len(properties), len(want))
	}
	if !slices.IsSortedFunc(properties,
		func(a, b Property) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("properties are not sorted, which the binary search in find requires")
	}
}

// TestPropertiesRoundTrip sets each property and reads it back, as a field of Settings and as text.
func TestPropertiesRoundTrip(t *testing.T) {
	type change = func(*Settings)
	day := 24 * time.Hour
	for _, c := range []struct {
		name, value string
		printed     string // "": equal to value
		field       change
	}{
		{"cleanup.policy", "compact", "", func(s *Settings) { s.Delete, s.Compact = false, true }},
		{"cleanup.policy", "delete", "", func(s *Settings) {}},
		{"cleanup.policy", "compact,delete", "", func(s *Settings) { s.Compact = true }},
		{"cleanup.policy", " compact, delete ", "compact,delete",
			func(s *Settings) { s.Compact = true }},
		{"cleanup.policy", "delete,compact", "",
			func(s *Settings) { s.Compact, s.DeleteFirst = true, true }},
		{"cleanup.policy", "compact,compact", "compact",
			func(s *Settings) { s.Delete, s.Compact = false, true }},
		{"max.decompressed.message.bytes", "1000", "", func(s *Settings) { s.RecordBytesMax = 1000 }},
		{"compression.type", "uncompressed", "", func(s *Settings) { s.KeepCodec = false }},
		{"compression.type", "gzip", "",
			func(s *Settings) { s.KeepCodec, s.Codec = false, compress.Gzip }},
		{"compression.type", "snappy", "",
			func(s *Settings) { s.KeepCodec, s.Codec = false, compress.Snappy }},
		{"compression.type", "lz4", "",
			func(s *Settings) { s.KeepCodec, s.Codec = false, compress.LZ4 }},
		{"compression.type", "zstd", "",
			func(s *Settings) { s.KeepCodec, s.Codec = false, compress.Zstd }},
		{"compression.type", "producer", "", func(s *Settings) {}},
		{"delete.retention.ms", "0", "", func(s *Settings) { s.TombstoneRetention = 0 }},
		{"delete.retention.ms", "172800000", "",
			func(s *Settings) { s.TombstoneRetention = 2 * day }},
		{"file.delete.delay.ms", "0", "",
			func(s *Settings) { s.WithoutEffect.FileDeleteDelay = 0 }},
		{"flush.messages", "1", "", func(s *Settings) { s.Fsync = true }},
		{"flush.ms", "1000", "", func(s *Settings) { s.WithoutEffect.FlushInterval = time.Second }},
		{"flush.ms", "9223372036854775807", "", func(s *Settings) {}},
		{"index.interval.bytes", "0", "", func(s *Settings) { s.IndexIntervalBytes = 0 }},
		{"index.interval.bytes", "65536", "", func(s *Settings) { s.IndexIntervalBytes = 65536 }},
		{"flush.messages", "9223372036854775807", "", func(s *Settings) {}},
		{"max.compaction.lag.ms", "60000", "", func(s *Settings) { s.MaxLag = time.Minute }},
		{"max.compaction.lag.ms", "9223372036854775807", "",
			func(s *Settings) { s.MaxLag = Unlimited }},
		{"max.message.bytes", "2000000", "", func(s *Settings) { s.MessageBytesMax = 2_000_000 }},
		{"message.timestamp.after.max.ms", "0", "", func(s *Settings) { s.TimestampAfterMax = 0 }},
		{"message.timestamp.after.max.ms", "9223372036854775807", "",
			func(s *Settings) { s.TimestampAfterMax = Unlimited }},
		{"message.timestamp.before.max.ms", "86400000", "",
			func(s *Settings) { s.TimestampBeforeMax = day }},
		{"message.timestamp.type", "LogAppendTime", "",
			func(s *Settings) { s.TimestampType = record.LogAppendTime }},
		{"message.timestamp.type", "CreateTime", "", func(s *Settings) {}},
		{"min.cleanable.dirty.ratio", "0.1", "", func(s *Settings) { s.MinDirtyPercent = 10 }},
		{"min.cleanable.dirty.ratio", "0.57", "", func(s *Settings) { s.MinDirtyPercent = 57 }},
		{"min.cleanable.dirty.ratio", "0.001", "", func(s *Settings) { s.MinDirtyPercent = 0.1 }},
		{"min.cleanable.dirty.ratio", "0.005", "", func(s *Settings) { s.MinDirtyPercent = 0.5 }},
		{"min.cleanable.dirty.ratio", "0.125", "", func(s *Settings) { s.MinDirtyPercent = 12.5 }},
		{"min.cleanable.dirty.ratio", "0.333", "", func(s *Settings) { s.MinDirtyPercent = 33.3 }},
		{"min.cleanable.dirty.ratio", "0.0001", "1.0E-4",
			func(s *Settings) { s.MinDirtyPercent = 0.01 }},
		{"min.cleanable.dirty.ratio", "1.25e-12", "1.25E-12",
			func(s *Settings) { s.MinDirtyPercent = 1.25e-10 }},
		{"min.cleanable.dirty.ratio", "0.123456789012345", "",
			func(s *Settings) { s.MinDirtyPercent = 12.3456789012345 }},
		{"min.cleanable.dirty.ratio", "-0", "0.0", func(s *Settings) { s.MinDirtyPercent = 0 }},
		{"min.cleanable.dirty.ratio", "0", "0.0", func(s *Settings) { s.MinDirtyPercent = 0 }},
		{"min.cleanable.dirty.ratio", "1", "1.0", func(s *Settings) { s.MinDirtyPercent = 100 }},
		{"min.compaction.lag.ms", "1500", "",
			func(s *Settings) { s.MinLag = 1500 * time.Millisecond }},
		{"min.insync.replicas", "2", "", func(s *Settings) { s.MinInSyncReplicas = 2 }},
		{"preallocate", "TRUE", "true", func(s *Settings) { s.WithoutEffect.Preallocate = true }},
		{"retention.bytes", "1024", "", func(s *Settings) { s.RetentionBytes = 1024 }},
		{"retention.bytes", "-1", "", func(s *Settings) { s.RetentionBytes = Unlimited }},
		{"retention.ms", "-1", "", func(s *Settings) { s.RetentionTime = Unlimited }},
		{"retention.ms", "1000", "", func(s *Settings) { s.RetentionTime = time.Second }},
		{"retention.ms", "9223372036854775807", "-1",
			func(s *Settings) { s.RetentionTime = Unlimited }},
		{"segment.bytes", "1024", "", func(s *Settings) { s.SegmentBytes = 1024 }},
		{"segment.bytes", "2147483647", "", func(s *Settings) { s.SegmentBytes = 1<<31 - 1 }},
		{"segment.index.bytes", "1024", "", func(s *Settings) { s.SegmentIndexBytes = 1024 }},
		{"segment.jitter.ms", "60000", "", func(s *Settings) { s.SegmentJitter = time.Minute }},
		{"segment.ms", "1", "", func(s *Settings) { s.SegmentAge = time.Millisecond }},
		{"unclean.leader.election.enable", "true", "",
			func(s *Settings) { s.UncleanElection = true }},
		{"unclean.leader.election.enable", " False", "false", func(*Settings) {}},
		{"segment.ms", "9223372036854775807", "",
			func(s *Settings) { s.SegmentAge = DurationMax }},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			got, want := Default(), Default()
			c.field(&want)
			if err := got.Set(c.name, c.value); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got settings %+v, want %+v", got, want)
			}
			if c.printed == "" {
				c.printed = c.value
			}
			if printed := propertyOf(t, got, c.name).Value; printed != c.printed {
				t.Errorf("got printed value %q, want %q", printed, c.printed)
			}
		})
	}
}

// TestSetErrorsNamePropertyValueAndRange checks that the error about a rejected value contains the
// property, the value and the range, and that the settings do not change.
func TestSetErrorsNamePropertyValueAndRange(t *testing.T) {
	for _, c := range []struct{ name, value, allowed string }{
		{"cleanup.policy", "", "delete, compact"},
		{"cleanup.policy", "compact,shrink", "delete, compact"},
		{"cleanup.policy", "compact,", "delete, compact"},
		{"compression.type", "none", "uncompressed"},
		{"compression.type", "brotli", "zstd"},
		{"delete.retention.ms", "-1", "0 to"},
		{"max.compaction.lag.ms", "0", "1 to"},
		{"max.message.bytes", "2147483648", "0 to 2147483647"},
		{"max.message.bytes", "1 MB", "0 to 2147483647"},
		{"message.timestamp.type", "createtime", "CreateTime"},
		{"min.cleanable.dirty.ratio", "1.01", "0 to 1"},
		{"min.cleanable.dirty.ratio", "NaN", "0 to 1"},
		{"min.cleanable.dirty.ratio", "-0.001", "0 to 1"},
		{"min.cleanable.dirty.ratio", "half", "0 to 1"},
		{"min.compaction.lag.ms", "-1", "0 to"},
		{"min.insync.replicas", "0", "1 to"},
		{"flush.messages", "10000", "1 (durability Fsync) or 9223372036854775807 (Replicated)"},
		{"flush.messages", "0", "1 (durability Fsync)"},
		{"flush.ms", "999", "1000 to"},
		{"file.delete.delay.ms", "-1", "0 to"},
		{"index.interval.bytes", "-1", "0 to 2147483647"},
		{"message.timestamp.after.max.ms", "-1", "0 to"},
		{"message.timestamp.before.max.ms", "-1", "0 to"},
		{"preallocate", "yes", "true or false"},
		{"segment.index.bytes", "1023", "1024 to 2147483647"},
		{"segment.jitter.ms", "-1", "0 to"},
		{"retention.bytes", "-2", "-1 to"},
		{"retention.ms", "99999999999999999999", "-1"},
		{"segment.bytes", "1023", "1024 to 2147483647"},
		{"segment.bytes", "2147483648", "1024 to 2147483647"},
		{"segment.ms", "0", "1 to"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			s := Default()
			err := s.Set(c.name, c.value)
			if err == nil {
				t.Fatal("the value was accepted")
			}
			for _, part := range []string{c.name, `"` + c.value + `"`, c.allowed} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got error %q, want text %q in it", err, part)
				}
			}
			if s != Default() {
				t.Errorf("the settings have changed: %+v", s)
			}
		})
	}
}

func TestUnknownPropertiesAreRejected(t *testing.T) {
	for _, name := range []string{"flush.ms ", "cleanup.policies", "", "zzz"} {
		s := Default()
		if err := s.Set(name, "1"); !errors.Is(err, ErrUnknownProperty) ||
			!strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("property %q: got error %v, want ErrUnknownProperty", name, err)
		}
	}
}

func TestSetAllSetsTheTypeBeforeItsLevel(t *testing.T) {
	for range 20 { // the iteration order of a map differs from run to run
		s := Default()
		err := s.SetAll(map[string]string{
			"compression.zstd.level": "19", "compression.type": "zstd", "cleanup.policy": "compact",
			"segment.bytes": "65536",
		})
		want := Default()
		want.KeepCodec, want.Codec, want.CodecLevel = false, compress.Zstd, 19
		want.Delete, want.Compact, want.SegmentBytes = false, true, 65536
		if err != nil || s != want {
			t.Fatalf("got settings %+v, error %v; want %+v", s, err, want)
		}
	}
}

func TestSetAllReportsAllErrorsAndChangesNothing(t *testing.T) {
	s := Default()
	err := s.SetAll(map[string]string{"segment.bytes": "1", "nonsense": "x",
		"cleanup.policy": "compact"})
	if err == nil || !strings.Contains(err.Error(), "segment.bytes") ||
		!strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got error %v", err)
	}
	if s != Default() {
		t.Errorf("the settings have changed: %+v", s)
	}
}

func TestMinLagMustNotExceedMaxLag(t *testing.T) {
	s := Default()
	err := s.SetAll(map[string]string{"min.compaction.lag.ms": "2000",
		"max.compaction.lag.ms": "1000"})
	if err == nil || !strings.Contains(err.Error(), "2000") ||
		!strings.Contains(err.Error(), "1000") {
		t.Errorf("got error %v", err)
	}
	if err := s.SetAll(map[string]string{"min.compaction.lag.ms": "1000",
		"max.compaction.lag.ms": "1000"}); err != nil {
		t.Error(err)
	}
}

// TestPropertiesCanBeWrittenBack checks that an admin tool can write back everything that it has
// read. After random calls of Set, the printed values are passed to SetAll on fresh defaults. The
// result must be equal.
func TestPropertiesCanBeWrittenBack(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	values := []string{"delete", "compact", "compact,delete", "producer", "zstd", "gzip", "lz4",
		"snappy", "uncompressed",
		"CreateTime", "LogAppendTime", "-1", "0", "0.25", "1", "3", "9", "17", "1000", "65536",
		"9223372036854775807"}
	for range 300 {
		s := Default()
		for range 40 {
			// Most combinations are invalid, so ignore errors.
			_ = s.Set(table()[random.IntN(len(table()))].name, values[random.IntN(len(values))])
		}
		if s.Validate() != nil {
			continue
		}
		printed := map[string]string{}
		for _, p := range s.Properties() {
			printed[p.Name] = p.Value
		}
		back := Default()
		if err := back.SetAll(printed); err != nil || back.Properties()[0] != s.Properties()[0] {
			t.Fatalf("SetAll of the printed values of %+v: error %v, or cleanup.policy differs", s, err)
		}
		for i, p := range back.Properties() {
			if p != s.Properties()[i] {
				t.Fatalf("got property %+v, want %+v", p, s.Properties()[i])
			}
		}
	}
}

func propertyOf(t *testing.T, s Settings, name string) Property {
	t.Helper()
	for _, p := range s.Properties() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no property %s", name)
	return Property{}
}

func TestNameOfCleanCodec(t *testing.T) {
	for want, codec := range map[string]CleanCodec{"": {},
		"zstd":    {Set: true, Codec: compress.Zstd, Level: compress.LevelDefault},
		"gzip 9":  {Set: true, Codec: compress.Gzip, Level: 9},
		"zstd -5": {Set: true, Codec: compress.Zstd, Level: -5}} {
		if got := codec.String(); got != want {
			t.Errorf("%+v: got %q, want %q", codec, got, want)
		}
	}
}
