// Package hanging finds hanging transactions in the partitions that a broker leads. A transaction
// hangs if it is open in a log and no transaction coordinator will end it. Leaders verify each
// transaction, so this happens only to logs that come from elsewhere, such as those of a restored
// or adopted data directory, and if __transaction_state is lost (ADR 0242).
//
// Watch looks for them every minute. It aborts those of producers that no transaction coordinator
// knows, and names the others in FirstOffsets until an administrator ends them. Run is its only
// goroutine; FirstOffsets may be called concurrently.
package hanging
