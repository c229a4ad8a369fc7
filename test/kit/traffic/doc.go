// Package traffic uses franz-go to produce keyed updates and tombstones to a topic and to read the
// whole topic, like an application. A ledger stores the sent and the acknowledged records, and
// checks the records that are read.
package traffic
