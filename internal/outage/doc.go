// Package outage limits the logging of operations that fail and are retried. It reports the
// beginning and the end of an outage, but not the failures in between: while a disk is full or the
// API server is unavailable, there may be thousands of failures per second. A Fold limits the
// logging of equal events that clients cause. Brief bounds the text of joined errors.
//
// The package is pure. The owner of a State protects it with a lock and passes the current time to
// its methods. The owner should write the log without holding the lock.
package outage
