// Package lease observes the Leases with which brokers show that they are alive. Brokers
// (internal/metadata/kube) and the operator (controllers/brokerstate) use this package, so both
// apply the same rules.
//
// All functions are pure: an Observation is an immutable value, and the current time is an
// argument.
//
// An observer does not compare its own clock with the holder's clock. A Lease is valid for its
// duration after the observer has noticed a renewal, measured by the observer's clock. If the
// clocks were compared, a broker whose clock is behind would never count as alive. Only the first
// observation of a Lease compares the clocks. It has no earlier renewTime to compare with, so it
// uses the age of the renewTime.
package lease
