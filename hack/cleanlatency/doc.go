// Command cleanlatency measures the latency of produce requests with acks=all while a command runs.
// hack/bench-clean-latency.sh uses it. Records are due at a constant rate. A record's latency
// starts at its due time, not when it is sent. So a stall increases the latencies of all records
// that are due during the stall.
package main
