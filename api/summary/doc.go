// Package summary adds up what brokers report of their replicas to what is said of a Topic: the
// compaction part of its status, and condition Compacting. The operator writes them to the Topic
// resource; brokers and heartwood dev show them under GET /api/v1/topics. Pure functions.
//
// # Rules
//
// Each replica has a cleaner of its own. Sizes, reasons, phase and progress are those of the
// partitions' leaders: a copy is not counted twice, and what clients read is the leader's. Two
// things are of all replicas: a quarantine, because a replica that is not cleaned keeps tombstones
// alive on the others, and a clean that was asked for by annotation.
//
// Numbers are rounded, so that a status changes when a person would call it another, and not with
// each byte.
package summary
