// Package brokerconfig defines the broker settings by their Kafka names. For each setting, it knows
// the LogCluster field that determines the value, or the value if no field does. Package
// topicconfig does the same for topic settings.
//
// The table has three kinds of rows:
//
//   - A row with Topic is the default of a topic's property, in spec.topicDefaults. Package
//     metadata reads and changes these fields, because it also does so for the fields of Topics.
//   - A row with a field of its own, such as group.max.size, has functions that read and write the
//     field (field.go).
//   - Any other row is read-only. Its value is fixed, or Describe derives it from another setting,
//     or only the broker itself knows it (Own).
//
// All code is pure.
package brokerconfig
