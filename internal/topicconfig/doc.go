// Package topicconfig defines the settings of a topic as typed fields and as Kafka properties. It
// is the only package that converts between both forms.
//
// Settings are plain values without pointers, so == compares them and a copy is a snapshot.
// Properties and Set use one table (table.go). Set rejects a name that is not in the table, because
// a client would assume that the property has an effect.
//
// Set keeps these invariants of Settings, in any order of calls: Delete or Compact is true; each
// value is in the range of its property; CodecLevel is valid for Codec. Validate checks the
// conditions that relate two settings (minimum and maximum lag), after all settings are set.
package topicconfig
