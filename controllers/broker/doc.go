// Package broker contains the controller of brokers. It watches the brokers' Leases and pods, and
// triggers the controllers that depend on a broker's state: election, topic and logcluster-status.
//
// These controllers do not watch Leases themselves. Otherwise every renewal of a Lease would make
// them reconcile all their resources, and each controller would need a timer for the expiry of the
// Lease.
//
// keyed.Map stores the state between reconciliations: the broker state that was last sent to the
// other controllers, and the brokers' racks (racks.go). connections.go runs one goroutine per
// broker, which ends with the manager.
package broker
