// Package traffic writes keyed updates and tombstones to a topic and reads a topic whole, with
// franz-go, as an application does. What it sends and what is acknowledged goes into a ledger,
// which then checks what is read.
package traffic
