// Command cleanlatency measures how long acks=all produces take while a command runs, for
// hack/bench-clean-latency.sh: records are sent at a constant rate, each timed from its due time,
// so a stall counts for all that were due in it.
package main
