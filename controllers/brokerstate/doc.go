// Package brokerstate decides which brokers are alive. All controllers use one Tracker, so they
// decide from the same state.
//
// Three sources are used, in this order:
//
//   - observation.go (pure): the broker's Lease. It proves that the broker is alive until it
//     expires; internal/lease observes it.
//   - pods.go: the broker's pod, which proves within a second or so that the broker process has
//     exited.
//   - ProcessExited: a connection to the broker (controllers/broker), which proves it at once.
//
// Pod and connection can only shorten the life of one broker epoch. They never extend it, and they
// have no effect on a later epoch.
package brokerstate
