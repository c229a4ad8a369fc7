// Package topicconfig holds a topic's settings, typed, and their Kafka names: the one place that
// knows both.
//
// Settings are plain values without pointers, so == compares them and a copy is a snapshot.
// Properties and Set go through one table (table.go); what is not in it is refused, so that no
// client believes a setting to be in effect that is not.
//
// Invariants of Settings that Set keeps, whatever the order of calls: Delete or Compact is true;
// each value is in its property's range; CodecLevel is one of Codec's. What binds two settings (min
// and max lag) is Validate's to check, once all are set.
package topicconfig
