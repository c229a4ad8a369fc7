// Package data handles the Kafka requests for records and logs: Produce, Fetch (also from
// followers), ListOffsets, DeleteRecords, OffsetForLeaderEpoch, log directories and active
// producers. It calls internal/replica. There is one file for each API, whose name contains the API
// key.
package data
