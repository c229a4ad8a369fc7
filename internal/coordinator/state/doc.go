// Package state contains the types that are exchanged between a coordinator's state machine and its
// runtime: records, answers, tokens and timers. State machines such as internal/coordinator/group
// are pure. They import package state, but not internal/coordinator/runtime, which owns the
// goroutines, the log and the clock.
package state
