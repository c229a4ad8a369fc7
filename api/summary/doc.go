// Package summary aggregates the brokers' reports on a topic's replicas into status.compaction and
// condition Compacting. The operator writes both to the Topic; brokers and heartwood dev return
// them from GET /api/v1/topics. All functions are pure.
//
// # Rules
//
// Each replica has its own cleaner. Sizes, reasons, phase and progress come from the partitions'
// leaders only, because records must not be counted once more for each follower, and because
// clients read from the leader. Two values cover all replicas. The first is a quarantine, because a
// replica that is not compacted keeps tombstones on the other replicas. The second is a clean
// requested by annotation.
//
// Numbers are rounded, so the status changes only if the difference matters to a reader, not with
// every byte.
package summary
