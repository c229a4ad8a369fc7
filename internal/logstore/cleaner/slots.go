package cleaner

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// workerSlots are the worker slots that all passes share. More passes may be started than slots
// exist. At the end of a time slice, a pass releases its slot to the pass that has waited longest.
// So the pass over a small log ends soon even while a pass over a terabyte log is running (ADR
// 0110).
//
// Invariants while mu is held: free is slots minus the number of held slots; queue is empty unless
// free <= 0.
type workerSlots struct {
	mu struct {
		sync.Mutex
		slots int
		free  int             // negative after resize, until the excess slots are released
		queue []chan struct{} // one channel per waiting call of acquire; closed when the call gets a slot
	}
}

// resize sets the number of slots. If more slots are held, passes release the excess slots at the
// end of their time slices.
func (w *workerSlots) resize(slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.free += slots - w.mu.slots
	w.mu.slots = slots
	w.grantLocked()
}

// grantLocked grants free slots to the callers that wait in queue, in order.
func (w *workerSlots) grantLocked() {
	for w.mu.free > 0 && len(w.mu.queue) > 0 {
		close(w.mu.queue[0])
		w.mu.queue = w.mu.queue[1:]
		w.mu.free--
	}
}

// acquire waits for a slot. Callers get slots in the order of their calls. If ctx ends first,
// acquire returns ctx's error, and the caller holds no slot.
func (w *workerSlots) acquire(ctx context.Context) error {
	w.mu.Lock()
	granted := make(chan struct{})
	w.mu.queue = append(w.mu.queue, granted)
	w.grantLocked()
	w.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if index := slices.Index(w.mu.queue, granted); index >= 0 {
		w.mu.queue = slices.Delete(w.mu.queue, index, index+1)
	} else { // grantLocked has granted a slot at the same time
		w.mu.free++
		w.grantLocked()
	}
	return ctx.Err()
}

// tryAcquire acquires a slot if one is free.
func (w *workerSlots) tryAcquire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.free <= 0 {
		return false
	}
	w.mu.free--
	return true
}

// release returns n slots.
func (w *workerSlots) release(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.free += n
	w.grantLocked()
}

// contended reports whether a pass waits for a slot, or more slots are held than exist.
func (w *workerSlots) contended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.queue) > 0 || w.mu.free < 0
}

// usage returns the numbers of held slots and free slots.
func (w *workerSlots) usage() (busy, idle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.slots - w.mu.free, max(0, w.mu.free)
}

// A time slice ends after sliceBytes bytes or sliceTime, whichever comes first. It is long enough
// for a pass to read and write in large pieces, but short enough that no pass has to wait while
// another pass processes a segment of a gigabyte.
const (
	sliceBytes = 16 << 20
	sliceTime  = time.Second
)

// heldSlots are the worker slots that one pass holds. A pass holds one slot, and further free slots
// while its hash slices run and no other pass waits for a slot. Any goroutine of the pass may
// release any of these slots. A nil *heldSlots is for work that needs no slot.
//
// Lock order: Cleaner.sidecarSlot is acquired before a worker slot. A goroutine that waits for the
// sidecar slot holds no worker slot.
type heldSlots struct {
	slots *workerSlots
	held  atomic.Int32
	began atomic.Int64 // start of the time slice, in Unix nanoseconds
	bytes atomic.Int64 // bytes read and written in the time slice
}

// tryAcquire acquires the pass's first slot if a slot is free, and begins the pass's first time
// slice.
func (h *heldSlots) tryAcquire() bool {
	if !h.slots.tryAcquire() {
		return false
	}
	h.held.Add(1)
	h.beginSlice()
	return true
}

// acquire waits for a slot and begins a time slice.
func (h *heldSlots) acquire(ctx context.Context) error {
	if err := h.slots.acquire(ctx); err != nil {
		return err
	}
	h.held.Add(1)
	h.beginSlice()
	return nil
}

func (h *heldSlots) beginSlice() {
	h.bytes.Store(0)
	h.began.Store(time.Now().UnixNano())
}

// used adds n bytes to the time slice. At the end of the time slice, if another pass waits for a
// slot, used releases the slot and waits for another slot. If ctx ends first, it returns ctx's
// error, and the pass does not hold the slot.
func (h *heldSlots) used(ctx context.Context, n int) error {
	if h == nil || h.bytes.Add(int64(n)) < sliceBytes &&
		time.Now().UnixNano()-h.began.Load() < int64(sliceTime) {
		return nil
	}
	if !h.slots.contended() {
		h.beginSlice()
		return nil
	}
	return h.releaseDuring(ctx, func() error { return nil })
}

// releaseDuring releases a slot, calls the function wait, and then acquires a slot again.
func (h *heldSlots) releaseDuring(ctx context.Context, wait func() error) error {
	if h == nil {
		return wait()
	}
	h.held.Add(-1)
	h.slots.release(1)
	if err := wait(); err != nil {
		return err
	}
	return h.acquire(ctx)
}

// parallel calls do(0) to do(n-1), concurrently if worker slots are free. It acquires up to n-1
// more slots, uses one goroutine per held slot, and releases the additional slots afterwards.
func (h *heldSlots) parallel(n int, do func(int)) {
	spare := 0
	for spare < n-1 && h.slots.tryAcquire() {
		h.held.Add(1)
		spare++
	}
	parallel(n, spare+1, do)
	for h.held.Load() > 1 {
		h.held.Add(-1)
		h.slots.release(1)
	}
}

// releaseAll releases every slot that the pass holds.
func (h *heldSlots) releaseAll() { h.slots.release(int(h.held.Swap(0))) }

// parallel calls do(0) to do(n-1) on the calling goroutine and on up to workers-1 other goroutines.
// It returns when all calls have returned.
func parallel(n, workers int, do func(int)) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
		}
	}
	var others sync.WaitGroup
	for range min(workers, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// Busy reports whether a pass is running.
func (c *Cleaner) Busy() bool {
	busy, _ := c.slots.usage()
	return busy > 0
}
