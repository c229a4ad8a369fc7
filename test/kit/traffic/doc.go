// Package traffic produces keyed updates and tombstones to a topic and reads the whole topic, with
// franz-go, as an application does. It stores the records that it sends, and which of them are
// acknowledged, in a ledger. The ledger then checks the records that are read.
package traffic
