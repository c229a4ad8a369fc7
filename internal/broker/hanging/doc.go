// Package hanging finds hanging transactions in the partitions that a broker leads. A transaction
// hangs if it is open in a log and no transaction coordinator will end it. Leaders verify each
// transaction with its coordinator. So hanging transactions occur only in logs of another origin,
// such as a restored or adopted data directory, and after a loss of __transaction_state (ADR 0242).
//
// Watch checks for hanging transactions every minute. It aborts a hanging transaction if no
// transaction coordinator knows the producer. FirstOffsets returns the other hanging transactions,
// which an administrator must end. Run is the only goroutine; FirstOffsets may be called
// concurrently.
package hanging
