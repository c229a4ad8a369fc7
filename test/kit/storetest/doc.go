// Package storetest contains helpers that the tests of internal/logstore and
// internal/logstore/cleaner share: topic settings, batches as producers send them, a log's records
// as consumers read them, and a disk on which a test can simulate a power failure at any step. It
// does not import internal/logstore, because the tests of internal/logstore import it.
package storetest
