// Package state holds the types that a coordinator's state machine and its runtime exchange:
// records, answers, tokens and timers. The state machines (internal/coordinator/group; later one
// for transactions) are pure: they import this package and not internal/coordinator/runtime, which
// owns the goroutines, the log and the clock.
package state
