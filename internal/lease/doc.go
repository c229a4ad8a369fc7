// Package lease observes the Leases by which brokers show that they are alive. Brokers
// (internal/metadata/kube) and the operator (controllers/brokerstate) use the same observation.
//
// Everything here is pure: an Observation is a value, and the current time is an argument.
//
// An observer does not compare its clock with the holder's: a Lease is valid for its duration after
// the observer has seen a renewal. Otherwise a broker whose clock is behind would never be alive.
// Only the first observation of a Lease has no earlier one to compare with, so it uses the holder's
// renewTime.
package lease
