package brokerconfig

import (
	"slices"
	"strings"
	"sync"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// Property is one broker setting.
type Property struct {
	Name string // e.g. log.retention.ms
	Type string // Kafka's ConfigDef type
	Doc  string
	// Field is the path of the LogCluster field that determines the value, e.g.
	// spec.topicDefaults.retention.time; "": no field does.
	Field string
	// Topic is the topic property for which this setting is the default, e.g. retention.ms; "": none.
	Topic string
	// Default is the value that is in effect if the LogCluster does not set Field.
	Default string
	// Null means that the setting has no value if the LogCluster does not set Field. If Fallback is
	// not empty, it names the read-only setting that then applies (log.retention.hours).
	Null     bool
	Fallback string
	// Own means that only the broker itself knows the value, such as its id.
	Own bool

	field *field // set in rows with a field of their own
	// derive computes the value from other settings; nil: the value is Default.
	derive func(value func(name string) string) string
}

// Alterable reports whether Kafka's admin clients can change the setting.
func (p *Property) Alterable() bool { return p.Topic != "" || p.field != nil }

// All returns all settings, sorted by name. The caller must not modify them.
func All() []*Property { return table().sorted }

// Find returns a setting, or nil if the name is unknown.
func Find(name string) *Property { return table().byName[name] }

// OfTopic returns the setting that is the default of a topic property, or nil if the property is
// unknown. Every topic property has such a setting.
func OfTopic(property string) *Property { return table().byTopic[property] }

type properties struct {
	sorted          []*Property
	byName, byTopic map[string]*Property
}

var table = sync.OnceValue(func() properties {
	t := properties{byName: map[string]*Property{}, byTopic: map[string]*Property{}}
	t.sorted = slices.Concat(topicRows(), clusterRows(), readOnlyRows())
	slices.SortFunc(t.sorted, func(a, b *Property) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range t.sorted {
		t.byName[p.Name] = p
		if p.Topic != "" {
			t.byTopic[p.Topic] = p
		}
	}
	return t
})

// Value is the effective value of a setting.
type Value struct {
	*Property
	Value string
	Null  bool // true: there is no value, and Value is ""
	Set   bool // the LogCluster sets the value
	// Fallback is the default, with the name of the setting that contains it; nil: the setting has no
	// default.
	Fallback *Synonym
}

// Synonym is another source of a setting's value.
type Synonym struct{ Name, Value string }

// Describe returns the effective value of each setting except those with Own. Parameter set
// contains the values that the LogCluster sets, by name.
func Describe(set map[string]string) []Value {
	value := func(name string) string {
		if v, ok := set[name]; ok {
			return v
		}
		return Find(name).Default
	}
	values := make([]Value, 0, len(All()))
	for _, p := range All() {
		if p.Own {
			continue
		}
		v := Value{Property: p, Value: p.Default, Null: p.Null}
		if given, ok := set[p.Name]; ok {
			v.Value, v.Null, v.Set = given, false, true
		} else if p.derive != nil {
			v.Value = p.derive(value)
		}
		switch {
		case p.Fallback != "":
			v.Fallback = &Synonym{p.Fallback, Find(p.Fallback).Default}
		case !p.Null:
			v.Fallback = &Synonym{p.Name, p.Default}
			if p.derive != nil {
				v.Fallback.Value = v.Value
			}
		}
		values = append(values, v)
	}
	return values
}

// defaultFields maps each topic property to the broker setting that is its default, and to the path
// of that setting's field in spec.topicDefaults.
var defaultFields = []struct{ topic, name, field, fallback string }{
	{"cleanup.policy", "log.cleanup.policy", "cleanupPolicy", ""},
	{"compression.gzip.level", "compression.gzip.level", "compression.level", ""},
	{"compression.lz4.level", "compression.lz4.level", "compression.level", ""},
	{"compression.type", "compression.type", "compression.type", ""},
	{"compression.zstd.level", "compression.zstd.level", "compression.level", ""},
	{"delete.retention.ms", "log.cleaner.delete.retention.ms", "compaction.tombstoneRetention", ""},
	{"file.delete.delay.ms", "log.segment.delete.delay.ms", "withoutEffect.fileDeleteDelay", ""},
	{"flush.messages", "log.flush.interval.messages", "durability", ""},
	{"flush.ms", "log.flush.interval.ms", "withoutEffect.flushInterval",
		"log.flush.scheduler.interval.ms"},
	{"index.interval.bytes", "log.index.interval.bytes", "segment.indexInterval", ""},
	{"max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "compaction.maxLag", ""},
	{"max.decompressed.message.bytes", "max.decompressed.message.bytes", "maxRecordSize", ""},
	{"max.message.bytes", "message.max.bytes", "maxMessageSize", ""},
	{"message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms",
		"timestampLimits.future", ""},
	{"message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms",
		"timestampLimits.past", ""},
	{"message.timestamp.type", "log.message.timestamp.type", "timestampType", ""},
	{"min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio",
		"compaction.minDirtyPercent", ""},
	{"min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "compaction.minLag", ""},
	{"min.insync.replicas", "min.insync.replicas", "minInSyncReplicas", ""},
	{"preallocate", "log.preallocate", "withoutEffect.preallocate", ""},
	{"retention.bytes", "log.retention.bytes", "retention.size", ""},
	{"retention.ms", "log.retention.ms", "retention.time", "log.retention.hours"},
	{"segment.bytes", "log.segment.bytes", "segment.size", ""},
	{"segment.index.bytes", "log.index.size.max.bytes", "segment.indexSize", ""},
	{"segment.jitter.ms", "log.roll.jitter.ms", "segment.jitter", "log.roll.jitter.hours"},
	{"segment.ms", "log.roll.ms", "segment.maxAge", "log.roll.hours"},
	{"unclean.leader.election.enable", "unclean.leader.election.enable",
		"uncleanLeaderElection", ""},
}

// topicRows returns the rows for the defaults of topic properties. If Kafka's synonym for a
// property is a read-only setting (log.retention.hours), it is the row's Fallback.
func topicRows() []*Property {
	standard := map[string]topicconfig.Property{}
	for _, p := range topicconfig.Default().Properties() {
		standard[p.Name] = p
	}
	rows := make([]*Property, 0, len(defaultFields))
	for _, f := range defaultFields {
		property := standard[f.topic]
		row := &Property{
			Name: f.name, Type: property.Type, Topic: f.topic, Default: property.Value, Fallback: f.fallback,
			Field: "spec.topicDefaults." + f.field,
			Doc:   "The default of the topic property " + f.topic + ". " + property.Doc,
		}
		if f.fallback != "" {
			row.Default, row.Null = "", true
		}
		rows = append(rows, row)
	}
	return rows
}
