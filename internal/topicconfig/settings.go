package topicconfig

import (
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// Unlimited is the value of a duration or size that has no limit.
const Unlimited = -1

// Settings are a topic's settings, resolved: every field has its value. Default returns Kafka's defaults.
type Settings struct {
	Delete             bool // retention applies
	Compact            bool // the cleaner applies
	MinDirtyPercent    int  // 0..100
	MinLag             time.Duration
	MaxLag             time.Duration // Unlimited: none
	TombstoneRetention time.Duration
	KeepCodec          bool // compression type producer
	Codec              compress.Codec
	CodecLevel         int           // compress.LevelDefault: the codec's default
	RetentionTime      time.Duration // Unlimited: for ever
	RetentionBytes     int64         // Unlimited: any size
	SegmentBytes       int64
	SegmentAge         time.Duration
	MessageBytesMax    int
	TimestampType      record.TimestampType
	MinInSyncReplicas  int
}

// Default returns the settings of a topic that sets nothing.
func Default() Settings { panic("unwritten") }

// Property is one setting under its Kafka name, as DescribeConfigs shows it.
type Property struct {
	Name    string // e.g. cleanup.policy
	Value   string
	Default bool   // the value is the default
	Type    string // boolean, string, int, short, long, double, list: Kafka's ConfigDef types
	Doc     string
}

// Properties lists the settings under their Kafka names, sorted.
func (s Settings) Properties() []Property { panic("unwritten") }

// Set changes one setting by its Kafka name, as a Kafka admin client gives it. The error names property, value and the
// allowed range.
func (s *Settings) Set(name, value string) error { panic("unwritten") }
