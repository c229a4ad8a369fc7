// Package broker holds the controller of brokers. It watches their Leases and pods and triggers the
// controllers that depend on a broker's state: partition and logcluster-status.
//
// Partitions could watch Leases themselves. Each of thousands would then be reconciled at every
// renewal, and each would need a timer for the expiry of the Lease.
//
// State between reconciliations is in keyed.Map: the last state that partitions were notified of
// (notifications.go) and the brokers' racks (racks.go). connections.go has one goroutine per
// broker, which ends with the manager; its lock is a leaf.
package broker
