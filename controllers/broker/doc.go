// Package broker contains the controller of brokers. It watches the brokers' Leases and pods, and
// triggers the controllers that depend on a broker's state: election, topic and logcluster-status.
//
// These controllers do not watch Leases themselves: they would reconcile all their resources at
// every renewal of a Lease, and each would need a timer for the expiry of the Lease.
//
// State between reconciliations is stored in keyed.Map: the broker state of which the other
// controllers were last notified, and the brokers' racks (racks.go). connections.go runs one
// goroutine per broker, which ends with the manager.
package broker
