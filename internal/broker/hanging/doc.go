// Package hanging finds hanging transactions in the partitions that a broker leads. A transaction
// hangs if it is open in a log and no transaction coordinator will end it. Leaders verify each
// transaction with its coordinator. So hanging transactions occur only in logs that come from
// elsewhere, such as a restored or adopted data directory, and after a loss of __transaction_state
// (ADR 0242).
//
// Watch looks for hanging transactions every minute. If no transaction coordinator knows the
// producer, Watch aborts the transaction. FirstOffsets returns the other hanging transactions until
// an administrator ends them. Run is the only goroutine; FirstOffsets may be called concurrently.
package hanging
