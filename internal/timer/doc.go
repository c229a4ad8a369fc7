// Package timer makes requests wait for an event on one of the keys that they watch, or for a
// timeout. All delayed operations of the broker wait here: produce requests for their replicas, and
// fetch requests for records.
//
//   - Wheel (wheel.go) is a hierarchical timing wheel: a plain struct without goroutine, lock or
//     clock.
//   - Timer (timer.go) runs a Wheel: one lock, and one goroutine that sleeps until the next bucket
//     is due.
//   - waiter (waiter.go) is the lock-free state machine that completes each operation exactly once.
//   - watchLists (watch.go) hold the operations that watch each key.
//   - Purgatory (purgatory.go) combines the Timer, the waiters and the watch lists.
//   - guard (guard.go) recovers panics of callbacks.
//
// # The wheel
//
// The wheel follows Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", 1997), as Kafka's
// does. Three levels of a wheel with 20 buckets and a tick of 1 ms; now is tick 8,134:
//
//	              now
//	               v
//	level 0   ... 34 | 35 | 36 | ... | 53 |         a bucket is 1 tick; the ring ends at tick 8,153
//	                    |
//	                    +-- e (due 8,135) <-> e <-> e    a bucket is a doubly linked list of entries
//
//	level 1   ... 8,120 | 8,140 | ... | 8,500 |     a bucket is 20 ticks; the ring ends at tick 8,519
//
//	level 2   ... 8,000 | 8,400 | ... | 15,600 |    a bucket is 400 ticks; the ring ends at 15,999
//
// An entry is in the lowest level whose ring contains its due tick: an entry due at 8,200 is in
// bucket 8,200 of level 1. When now reaches that bucket, its entries move to the buckets of level
// 0, one for each tick. Most entries are removed earlier, because their request completes. For each
// level, a word has one bit per bucket in use. So the wheel finds the next bucket without visiting
// empty ones, and a clock that jumps costs time for the entries in the buckets it passes, not for
// the ticks.
//
// The goroutine sleeps until the first bucket that is not empty, of any level. While no entry is
// pending, the goroutine does not wake at all. An entry never fires early: its timeout is rounded
// up to the tick. So it fires up to one tick late, plus the time that the operating system needs to
// wake a thread.
//
// # Why no wake-up is lost
//
// An operation waits for a state, such as a high watermark, that other goroutines change. If the
// state changes after the operation has checked it and before the operation is in the watch lists,
// no notification reaches the operation. The following order prevents that:
//
//	operation                  goroutine that changes the state
//	(1) check: not complete    (a) change the state
//	(2) watch each key         (b) Notify the key: check all its watchers
//	(3) check again
//
// (2) and (b) take the purgatory's lock, so one precedes the other. If (2) comes first, (b) finds
// the operation. If (b) comes first, so does (a), and the check (3) sees the change. A goroutine
// that wants to check an operation may find another one inside its TryComplete, which may have
// begun before (a). The first goroutine then sets a bit. The goroutine inside looks for that bit
// before it leaves, and checks once more if it is set (waiter.go). If that goroutine has left
// before the bit was set, the first goroutine performs the check itself.
//
// # Invariants
//
//   - Each operation passed to Wait ends exactly once: TryComplete returns true, or Expire is
//     called.
//   - TryComplete and Expire of one operation never run concurrently.
//   - Once the calls that ended an operation, and Wait, have returned, the operation is in no watch
//     list and not in the wheel. So memory is proportional to the pending operations.
//   - No event is lost: a Notify that begins after Wait's last check causes another check of the
//     operation.
//
// Lock: a purgatory and its timer share one, and no callback runs under it. An operation is added
// and removed under one hold of the lock, for its timeout and all of its keys; with many keys the
// lock is released in between.
//
// Goroutines: one for each Timer; Close joins it. This goroutine calls Expire, so an Expire must
// not block. Notify runs TryComplete in the caller's goroutine.
package timer
