// Package brokerstate decides which brokers are alive. All controllers use one Tracker, so all of
// them use the same broker states.
//
// Three sources are used, in this order:
//
//   - observation.go (pure): the broker's Lease. Until it expires, the broker counts as alive;
//     internal/lease observes it.
//   - pods.go: the broker's pod, which proves within a second or so that the broker process has
//     exited.
//   - ProcessExited: a connection to the broker (controllers/broker), which proves it at once.
//
// The pod and the connection can only prove that a broker process has exited before its Lease
// expires. They cannot prove that a broker is alive, and they do not affect a later broker epoch.
package brokerstate
