// Package broker contains the controller of brokers. It watches the brokers' Leases and pods, and
// triggers the controllers that depend on a broker's state: partition and logcluster-status.
//
// The partition controller does not watch Leases itself: it would reconcile thousands of Partitions
// at every renewal of a Lease, and each would need a timer for the expiry of the Lease.
//
// State between reconciliations is stored in keyed.Map: the broker state of which the partition
// controller was last notified (notifications.go), and the brokers' racks (racks.go).
// connections.go runs one goroutine per broker, which ends with the manager.
package broker
