// Package topicconfig defines a topic's settings as typed fields and as Kafka properties. It is the
// only package that converts between the two forms.
//
// Settings are plain values without pointers, so == compares them and a copy is a snapshot.
// Properties and Set use one table (table.go). Set rejects a name that is not in the table, because
// a client would assume that the property has an effect.
//
// Set keeps these invariants of Settings, in any order of calls: Delete or Compact is true; each
// value is within its property's range; CodecLevel is valid for Codec. After all settings are set,
// Validate checks conditions between two settings (minimum and maximum lag).
package topicconfig
