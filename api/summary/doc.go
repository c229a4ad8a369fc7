// Package summary aggregates the brokers' reports on their replicas for each Topic, into
// status.compaction and condition Compacting. The operator writes them to the Topic resource;
// brokers and heartwood dev return them from GET /api/v1/topics. All functions are pure.
//
// # Rules
//
// Each replica has its own cleaner. Sizes, reasons, phase and progress are those of the partitions'
// leaders: a follower's copy is not counted twice, and clients read from the leader. Two values
// cover all replicas: a quarantine, because a replica that is not compacted keeps tombstones on the
// other replicas, and a clean that was requested by annotation.
//
// Numbers are rounded, so that the status changes only if the difference matters to a reader, not
// with every byte.
package summary
