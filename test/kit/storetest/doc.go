// Package storetest contains what the tests of internal/logstore and internal/logstore/cleaner
// share: topic settings, batches as producers send them, the records of a log as consumers read
// them, and a disk on which a test can simulate a power failure at any step. It does not import
// internal/logstore, whose own tests import it.
package storetest
