// Package watch holds what all controllers need to be triggered: how a controller is built, how
// events are coalesced, and which Topic or LogCluster an event concerns.
package watch
