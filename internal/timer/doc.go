// Package timer contains the broker's purgatory, which holds delayed operations. A delayed
// operation waits for an event on one of the keys that it watches, or for its timeout. A produce
// request waits for its replicas, and a fetch request waits for records.
//
//   - Wheel (wheel.go) is a hierarchical timing wheel: a plain struct without goroutine, lock or
//     clock.
//   - Timer (timer.go) runs a Wheel: one lock, and one goroutine that sleeps until the next bucket
//     is due.
//   - waiter (waiter.go) is the lock-free state machine that completes each operation exactly once.
//   - watchLists (watch.go) lists the operations that watch each key.
//   - Purgatory (purgatory.go) combines the Timer, the waiters and the watch lists.
//   - guard (guard.go) recovers panics of callbacks.
//
// # The wheel
//
// The wheel follows Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", 1997), as Kafka's
// wheel does. This example shows three levels of a wheel with 20 buckets per level. The current
// tick, now, is 8,134:
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
// 0, each of which is one tick. Most entries are removed earlier, because their request completes.
// Each level has a bitmap of its buckets in use, by which the wheel finds the next bucket in use
// without visiting empty ones. If the clock jumps, the cost depends on the number of entries in the
// buckets that it passes, and not on the number of ticks.
//
// The goroutine sleeps until the first bucket of any level that is not empty. While no entry is
// pending, the goroutine does not wake at all. An entry never fires early, because its timeout is
// rounded up to a tick. So it fires at most one tick late, plus the time that the operating system
// needs to wake a thread.
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
// Steps (2) and (b) acquire the purgatory's lock, so one of them precedes the other. If (2)
// precedes (b), then (b) finds the operation. If (b) precedes (2), then (a) precedes (3), so the
// check (3) reads the new state.
//
// Two goroutines may want to check the same operation at the same time. If goroutine A finds that
// goroutine B is inside TryComplete, B may have read the state before (a). So A sets a bit. B reads
// this bit before it leaves, and checks the operation once more if the bit is set (waiter.go). If B
// leaves before A has set the bit, A checks the operation itself.
//
// # Invariants
//
//   - Each operation passed to Wait ends exactly once: TryComplete returns true, or Expire is
//     called.
//   - TryComplete and Expire of one operation never run concurrently.
//   - As soon as Wait and the call that ended an operation have returned, the operation is in no
//     watch list and not in the wheel. So memory is proportional to the number of pending
//     operations.
//   - No event is lost: if a Notify of a watched key begins after the last check of Wait, the
//     operation is checked again.
//
// Lock: a purgatory and its timer share one lock, and no callback runs while the lock is held.
// Adding an operation's timeout and keys takes one acquisition of the lock, and so does removing
// them. If an operation has many keys, the lock is released and reacquired after every keysPerLock
// keys.
//
// Goroutines: each Timer has one goroutine, which ends in Close. This goroutine calls Expire, so an
// Expire must not block. Notify runs TryComplete in the caller's goroutine.
package timer
