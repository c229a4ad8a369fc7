package purgatory

import (
	"sync/atomic"
	"time"
)

// rival is a purgatory put together from a kind of timers and a kind of watch lists, so that each
// can be compared by itself. It is as good as the purgatory in what costs time: a request ends
// exactly once, by whoever sets done first, then leaves the timers and, if its lists are of that
// kind, the lists.
type rival struct {
	timers timers
	lists  lists
}

// timers call expire of a request when its timeout is over. Each is called for every request: there
// are three real ones.
type timers interface {
	start(w *waiter, timeout time.Duration)
	// stop is called for each request that was completed, once, after start has returned.
	stop(w *waiter)
	close()
}

// lists say which requests watch which key.
type lists interface {
	add(w *waiter, keys []key)
	// ended is called for each request that has ended, once.
	ended(w *waiter)
}

// waiter is a request in a rival.
type waiter struct {
	request *request
	rival   *rival
	done    atomic.Bool
	clock   alarm   // of the timers
	places  []place // in the lists that unlink; nil in others
}

func (v *rival) wait(r *request, timeout time.Duration, keys []key) {
	if r.ready.Load() {
		r.end(&r.run.completed)
		return
	}
	w := &waiter{request: r, rival: v}
	r.rival = w
	v.lists.add(w, keys)
	v.timers.start(w, timeout)
	if r.ready.Load() { // an event between the first look and the watching
		v.complete(r)
	}
}

func (v *rival) complete(r *request) {
	r.ready.Store(true)
	if w := r.rival; w.done.CompareAndSwap(false, true) {
		r.TryComplete()
		v.timers.stop(w)
		v.lists.ended(w)
	}
}

// expire is what the timers call.
func (w *waiter) expire() {
	if w.done.CompareAndSwap(false, true) {
		w.request.Expire()
		w.rival.lists.ended(w)
	}
}

func (v *rival) close() { v.timers.close() }
