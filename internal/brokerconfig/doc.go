// Package brokerconfig defines the settings of brokers under their Kafka names: which field of the
// LogCluster determines each of them, and the value of each setting that no field determines. It is
// the broker's counterpart of package topicconfig.
//
// The table has three kinds of rows:
//
//   - A row with Topic is the default of a topic's property, in spec.topicDefaults. Package
//     metadata reads and changes these fields, because it also does so for Topics.
//   - A row with a field of its own, such as group.max.size, has functions that read and write the
//     field (field.go).
//   - Any other row is read-only. It has a fixed value, or one that Describe derives from another
//     setting, or one that only the broker itself knows (Own).
//
// All code is pure.
package brokerconfig
