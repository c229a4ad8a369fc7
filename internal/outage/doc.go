// Package outage limits the logging of operations that fail and are retried. It reports the
// beginning and the end of an outage, but not the failures in between, because there can be
// thousands per second while a disk is full or the API server is unavailable. A Fold limits the
// logging of equal events that clients cause. Brief limits the length of the text of joined errors.
//
// The package is pure. The owner of a State protects it with a lock and passes the current time to
// its methods. The owner should write the log without holding the lock.
package outage
