// Package topicconfig has the typed settings of a topic and their Kafka names; no other package
// knows both.
//
// Settings are plain values without pointers, so == compares them and a copy is a snapshot.
// Properties and Set use one table (table.go). Set rejects names that are not in it, so that no
// client takes a setting for effective that is not.
//
// Invariants of Settings that Set keeps in any order of calls: Delete or Compact is true; each
// value is in its property's range; CodecLevel is valid for Codec. Validate checks what relates two
// settings (min and max lag), once all are set.
package topicconfig
