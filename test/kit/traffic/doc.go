// Package traffic produces keyed updates and tombstones to a topic and reads the whole topic, with
// franz-go, as an application does. A ledger contains the records that were sent and the records
// that were acknowledged. The ledger then checks the records that are read.
package traffic
