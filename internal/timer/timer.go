package timer

import "time"

// Operation is a request that waits: for records, for replicas, for time.
type Operation interface {
	// TryComplete looks whether the wait is over, and if so completes the operation and returns true. The purgatory never
	// calls it twice at the same time, and never after it returned true.
	TryComplete() bool
	// Expire completes the operation because its time is up.
	Expire()
}

// Purgatory holds operations until an event on one of their keys, or time, completes them. Each completes exactly once.
type Purgatory[K comparable] struct{}

// Options of a purgatory.
type Options struct {
	Operation string        // metric label: produce, fetch, ...
	Tick      time.Duration // resolution of timeouts; default 1 ms
}

// NewPurgatory starts a purgatory; Close stops it.
func NewPurgatory[K comparable](opts Options) *Purgatory[K] { panic("unwritten") }

// Wait completes op at once if it can, else watches keys and gives it until timeout from now.
func (p *Purgatory[K]) Wait(op Operation, timeout time.Duration, keys ...K) { panic("unwritten") }

// Notify lets the operations that watch key look again, and returns how many completed.
func (p *Purgatory[K]) Notify(key K) int { panic("unwritten") }

// Close expires what still waits and joins the goroutine.
func (p *Purgatory[K]) Close() { panic("unwritten") }
