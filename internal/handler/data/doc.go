// Package data answers the Kafka requests for records and logs: Produce, Fetch, also of followers,
// ListOffsets, DeleteRecords, OffsetForLeaderEpoch, log directories and active producers. It calls
// internal/replica. There is one file for each API, named by its key.
package data
