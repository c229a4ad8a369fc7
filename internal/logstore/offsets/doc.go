// Package offsets contains the four offsets of a log, and keeps the invariant between them:
//
//	LogStart <= LastStable <= HighWatermark <= LogEnd
//
// The offsets fall only in Lower, which a truncation calls before it publishes the new segment
// list. A reader therefore loads the log end again after it has loaded the list.
//
// Reads acquire no lock. The exceptions are reads of the last stable offset and of the open
// transactions, which acquire a mutex that is never held during I/O. The log start and the log end
// change under the lock of the log, which is acquired before that mutex.
package offsets
