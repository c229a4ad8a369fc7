// Package timer makes requests wait: for an event on one of the keys they watch, or for their time to be up.
//
//   - Wheel (wheel.go) is a hierarchical timing wheel: a plain struct without goroutine, lock or clock.
//   - Timer (timer.go) is its shell: one lock, one goroutine that sleeps until the next bucket is due.
//   - waiter (waiter.go) is one operation's state machine, without locks: it gives each operation exactly one end.
//   - watchLists (watch.go) are the lists of who watches which key, in shards.
//   - Purgatory (purgatory.go) puts these together.
//
// Invariants:
//   - Each operation that Wait was given ends exactly once: TryComplete returned true, or Expire was called.
//   - TryComplete and Expire of one operation never run at the same time.
//   - An operation that has ended is in no watch list and not in the wheel once those who ended it, and Wait, have returned. So
//     memory follows the operations that are pending, not those that ever were.
//   - No event is lost: a Notify that begins after Wait's last look at the operation makes it be looked at again.
//
// Lock order: none. A shard's lock and the timer's are never held together, and no callback runs under either.
//
// Goroutines: one for each Timer; Close joins it. It runs Expire, so an Expire must not block. Notify runs TryComplete in the
// caller's goroutine.
package timer
