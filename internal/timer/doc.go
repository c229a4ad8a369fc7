// Package timer makes requests wait: for an event on one of the keys they watch, or for their time
// to be up. Whatever waits in the broker on behalf of a client waits here: produces for their
// replicas, fetches for records.
//
//   - Wheel (wheel.go) is a hierarchical timing wheel: a plain struct without goroutine, lock or
//     clock.
//   - Timer (timer.go) is its shell: one lock, one goroutine that sleeps until the next bucket is
//     due.
//   - waiter (waiter.go) is one operation's state machine, without locks: it gives each operation
//     exactly one end.
//   - watchLists (watch.go) are the lists of who watches which key.
//   - Purgatory (purgatory.go) puts these together.
//   - guard (guard.go) keeps a callback's panic from harming others.
//
// # The wheel
//
// As Varghese and Lauck describe it ("Hashed and Hierarchical Timing Wheels", 1997), and as Kafka
// has it. Three levels of a wheel of 20 buckets, with a tick of 1 ms; now is tick 8,134:
//
//	              now
//	               v
//	level 0   ... 34 | 35 | 36 | ... | 53 |         a bucket is 1 tick; the ring reaches tick 8,153
//	                    |
//	                    +-- e (due 8,135) <-> e <-> e    a bucket is a doubly linked list through the entries
//
//	level 1   ... 8,120 | 8,140 | ... | 8,500 |     a bucket is 20 ticks; the ring reaches tick 8,519
//
//	level 2   ... 8,000 | 8,400 | ... | 15,600 |    a bucket is 400 ticks; the ring reaches tick 15,999
//
// An entry goes to the lowest level whose ring reaches its due tick: one due at 8,200 to the bucket
// 8,200 of level 1. When now comes to that bucket, its entries are spread over the buckets of level
// 0, where each has a bucket for its very tick. Most never get there: their request is completed,
// and they are taken out. A word for each level has a bit for each bucket in use, so that the next
// one is found without going from bucket to bucket, and a clock that jumps costs what is in the
// buckets it passes, not the ticks.
//
// The goroutine sleeps until the first bucket that is not empty, of whatever level. With nothing
// pending it does not wake at all. An entry never fires early: its timeout is rounded up to the
// tick. So it fires up to a tick late, plus what the operating system takes to wake a thread.
//
// # Why no wake-up is lost
//
// An operation waits for a state (a high watermark) that others change. The danger is the gap
// between its look at the state, which said no, and its place in the watch lists: an event in
// between wakes nobody. Hence the rules:
//
//	who waits            who changes the state
//	(1) look: no         (a) change the state
//	(2) watch each key   (b) Notify the key: look at all who watch
//	(3) look again
//
// (2) and (b) take the purgatory's lock, so one comes before the other. If (2) comes first, (b)
// finds the operation. If (b) comes first, so does (a), and by the lock the look (3) sees it.
// Whoever looks may find another inside the operation's TryComplete, whose look may have begun
// before (a). Then it leaves a bit, and the other looks once more before it leaves (waiter.go): it
// either sees the bit, or had left before and the one who comes looks itself.
//
// # Invariants
//
//   - Each operation that Wait was given ends exactly once: TryComplete returned true, or Expire
//     was called.
//   - TryComplete and Expire of one operation never run at the same time.
//   - An operation that has ended is in no watch list and not in the wheel once those who ended it,
//     and Wait, have returned. So memory follows the operations that are pending, not those that
//     ever were.
//   - No event is lost: a Notify that begins after Wait's last look at the operation makes it be
//     looked at again.
//
// Lock: a purgatory and its timer have one, and no callback runs under it. An operation comes and
// goes under it once, for its timeout and all of its keys; for many keys it is given away in
// between.
//
// Goroutines: one for each Timer; Close joins it. It runs Expire, so an Expire must not block.
// Notify runs TryComplete in the caller's goroutine.
package timer
