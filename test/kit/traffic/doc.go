// Package traffic produces keyed updates and tombstones to a topic and reads the whole topic, with
// franz-go, like an application. It records what it sends and what is acknowledged in a ledger,
// which then checks what is read.
package traffic
