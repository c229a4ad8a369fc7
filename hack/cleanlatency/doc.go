// Command cleanlatency measures the latency of acks=all produce requests while a command runs, for
// hack/bench-clean-latency.sh. Records are sent at a constant rate, and each latency counts from
// the time at which the record was due, so that a stall counts for all records that were due during
// it.
package main
