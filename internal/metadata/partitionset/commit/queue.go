package commit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// These are errors of an API.
var (
	// ErrConflict means that the set has another resourceVersion, so nothing was written.
	ErrConflict = errors.New("the PartitionSet has changed")
	// ErrNotFound means that the set does not exist.
	ErrNotFound = errors.New("the PartitionSet does not exist")
)

// API reads and writes PartitionSets. The objects that it returns must not be modified.
type API interface {
	// Latest returns the latest version of the set that a watch has delivered, or nil.
	Latest(set string) *v1alpha1.PartitionSet
	// Get returns the stored version of the set. The error wraps ErrNotFound if the set does not
	// exist.
	Get(ctx context.Context, set string) (*v1alpha1.PartitionSet, error)
	// UpdateSpec and UpdateStatus replace the spec or the status if the stored resourceVersion equals
	// the argument's, and return the result. An error that wraps ErrConflict or ErrNotFound means that
	// nothing was written. After any other error the outcome is unknown.
	UpdateSpec(ctx context.Context, set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error)
	UpdateStatus(ctx context.Context, set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error)
}

// Change changes a set. It is called for each version of the set on whose basis the change is
// decided, and never concurrently with other changes of the set. If it returns an error, the change
// is refused; it must then leave the set unchanged.
type Change func(*partitionset.Set) error

// Options contains the options of a Writer.
type Options struct {
	// Timeout limits the duration of each request; default 10 s.
	Timeout time.Duration
	// Concurrent is the maximum number of sets that are written at the same time; default 8.
	Concurrent int
	// Writers returns the number of processes that write the sets. If Writers is nil, there are few.
	// The more there are, the fewer sets each writes at the same time, so that the requests of all
	// processes do not wait in the API server for longer than Timeout.
	Writers func() int
	// TrustWatch makes a change succeed if it has no effect on the watched version, although the
	// stored version may differ. This avoids a read for a caller that repeats its changes for each
	// version that the watch delivers.
	TrustWatch bool
}

// Writer writes changes of the sets of one LogCluster. It is safe for concurrent use.
type Writer struct {
	api     API
	options Options
	mu      struct {
		sync.Mutex
		queues  map[string]*queue
		ready   []*queue // sets with pending changes that are not being written, in the order of arrival
		running int      // number of sets that are being written
	}
}

// part is the part of a set that a change writes: the spec or the status.
type part int

const (
	spec part = iota
	status
)

// queue contains a set's pending changes, and what the writer knows about the set.
type queue struct {
	set     string
	pending []*request
	active  bool // true if the set is in ready or is being written
	gone    bool // true after Forget; the queue is removed when it is not active

	// The goroutine that writes the set uses the following fields without the lock.
	own     ownVersions
	decoded *partitionset.Set // last version that was decoded
}

// request is a change for which a caller waits.
type request struct {
	ctx    context.Context //nolint:containedctx // a pending change ends with its caller's context
	part   part
	urgent bool
	change Change
	// error with which the last version refused the change; nil after a version accepted it
	refusal error
	settled chan error // channel for the result, with a buffer of one
}

// New returns a writer.
func New(api API, options Options) *Writer {
	options.Timeout = cmp.Or(options.Timeout, 10*time.Second)
	options.Concurrent = cmp.Or(options.Concurrent, 8)
	w := &Writer{api: api, options: options}
	w.mu.queues = map[string]*queue{}
	return w
}

// ChangeStatus makes one change of a set's status; see ChangeStatuses.
func (w *Writer) ChangeStatus(ctx context.Context, set string, change Change) error {
	return w.submit(ctx, set, status, false, []Change{change})[0]
}

// ChangeSpec makes one change of a set's assignments; see ChangeStatuses.
func (w *Writer) ChangeSpec(ctx context.Context, set string, change Change) error {
	return w.submit(ctx, set, spec, false, []Change{change})[0]
}

// ChangeSpecs makes changes of a set's assignments, in one write; see ChangeStatuses.
func (w *Writer) ChangeSpecs(ctx context.Context, set string, changes []Change) []error {
	return w.submit(ctx, set, spec, false, changes)
}

// ChangeStatuses makes changes of a set's status, in one write. If urgent is true, the set is
// written before sets without urgent changes. It returns one error for each change:
//
//   - nil: the change is stored, or there was nothing to change on the stored version (with
//     Options.TrustWatch: on the watched version).
//   - the error of the change: the change was refused on the basis of the stored version.
//   - an error that wraps ErrConflict or ErrNotFound: nothing was written.
//   - any other error, such as ctx's error: the outcome is unknown.
func (w *Writer) ChangeStatuses(ctx context.Context, set string, urgent bool,
	changes []Change) []error {
	return w.submit(ctx, set, status, urgent, changes)
}

// submit adds changes to a set's queue and waits for their results.
func (w *Writer) submit(ctx context.Context, set string, part part, urgent bool,
	changes []Change) []error {
	requests := make([]*request, len(changes))
	for i, change := range changes {
		requests[i] = &request{ctx: ctx, part: part, urgent: urgent, change: change,
			settled: make(chan error, 1)}
	}
	w.add(set, requests)
	errs := make([]error, len(changes))
	for i, r := range requests {
		select {
		case errs[i] = <-r.settled:
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
	}
	return errs
}

func (w *Writer) add(set string, requests []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.mu.queues[set]
	if q == nil {
		q = &queue{set: set}
		w.mu.queues[set] = q
	}
	q.pending = append(q.pending, requests...)
	if !q.active {
		q.active = true
		w.mu.ready = append(w.mu.ready, q)
	}
	w.dispatchLocked()
}

// Forget removes the state of a set that no longer exists. Pending changes are still settled.
func (w *Writer) Forget(set string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.mu.queues[set]; q != nil {
		q.gone = true
		w.removeLocked(q)
	}
}

// removeLocked removes the queue of a set that does not exist, unless a goroutine uses it.
func (w *Writer) removeLocked(q *queue) {
	if q.gone && !q.active {
		delete(w.mu.queues, q.set)
	}
}

// requestsOfAll is the approximate number of concurrent requests of all writers together.
const requestsOfAll = 64

// concurrent returns the number of sets that may be written at the same time.
func (w *Writer) concurrent() int {
	if w.options.Writers == nil {
		return w.options.Concurrent
	}
	return max(1, min(w.options.Concurrent, requestsOfAll/max(1, w.options.Writers())))
}

// dispatchLocked starts writes of sets. Sets with urgent changes come first.
func (w *Writer) dispatchLocked() {
	for w.mu.running < w.concurrent() && len(w.mu.ready) > 0 {
		index := max(0, slices.IndexFunc(w.mu.ready, func(q *queue) bool {
			return slices.ContainsFunc(q.pending, func(r *request) bool { return r.urgent })
		}))
		q := w.mu.ready[index]
		w.mu.ready = slices.Delete(w.mu.ready, index, index+1)
		w.mu.running++
		batch := q.pending
		q.pending = nil
		go w.run(q, batch)
	}
}

// run makes one batch of changes, and queues the set again if more changes have arrived.
func (w *Writer) run(q *queue, batch []*request) {
	w.write(q, batch)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.running--
	if q.active = len(q.pending) > 0; q.active {
		w.mu.ready = append(w.mu.ready, q)
	}
	w.removeLocked(q)
	w.dispatchLocked()
}
