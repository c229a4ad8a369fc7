package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// attempts is the maximum number of times that a batch is written while other writers change the
// set.
const attempts = 10

// The pause after a conflict is random. Its maximum is the duration of the write, but at least
// pauseShortest. The maximum doubles with each further conflict, up to pauseLongest.
const (
	pauseShortest = 5 * time.Millisecond
	pauseLongest  = 500 * time.Millisecond
)

// write makes a batch of changes: first the changes of the spec, then the changes of the status.
func (w *Writer) write(q *queue, batch []*request) {
	for _, part := range []part{spec, status} {
		var changes []*request
		for _, r := range batch {
			if r.part == part {
				changes = append(changes, r)
			}
		}
		if len(changes) > 0 {
			ctx, cancel := whileWanted(changes)
			w.writePart(ctx, q, part, changes)
			cancel()
		}
	}
}

// whileWanted returns a context that ends once the contexts of all requests have ended.
func whileWanted(requests []*request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	var wanted atomic.Int64
	wanted.Store(int64(len(requests)))
	stops := make([]func() bool, 0, len(requests))
	for _, r := range requests {
		stops = append(stops, context.AfterFunc(r.ctx, func() {
			if wanted.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// writePart makes changes to one part of a set, and settles each of them.
func (w *Writer) writePart(ctx context.Context, q *queue, part part, pending []*request) {
	base, live := q.own.latest(w.api.Latest(q.set)), false
	conflicts := 0
	for attempt := range attempts {
		if base == nil {
			var err error
			if base, err = w.get(ctx, q); err != nil {
				settleUndecided(pending, err)
				return
			}
			live = true
		}
		set, applied, refused := w.apply(q, base, live, pending)
		err, began := error(nil), time.Now()
		if changed(set, part) {
			err = w.update(ctx, q, part, base, set)
		} else if !live && (!w.options.TrustWatch || attempt > 0) && len(applied) > 0 {
			// This version needs no write, but the stored version may differ. Only a compare-and-swap or a
			// read can confirm that the set is in the state that the callers request.
			pending, base = slices.Concat(applied, refused), nil
			continue
		}
		switch {
		case errors.Is(err, ErrConflict):
			conflicts++
			pending = slices.Concat(applied, refused)
			if attempt+1 < attempts {
				w.pause(ctx, conflicts, time.Since(began))
				base, live = w.afterConflict(q, base, live), false
			}
			continue
		case err != nil:
			settle(applied, err)
			settleUndecided(refused, fmt.Errorf("%w: %w", ErrConflict, err))
			return
		default:
			settle(applied, nil)
			pending = refused
		}
		if len(pending) == 0 {
			return
		}
		base = nil // the stored version decides
	}
	settleUndecided(pending, fmt.Errorf("%w: %d attempts ended in conflicts", ErrConflict, attempts))
}

// afterConflict returns the version that the watch has delivered since a conflict, which costs the
// API server nothing. It returns nil if the stored version must be read. Once a version has been
// read, the next version must be read too, because the watch may deliver an older version.
func (w *Writer) afterConflict(q *queue, base *v1alpha1.PartitionSet,
	live bool) *v1alpha1.PartitionSet {
	watched := q.own.latest(w.api.Latest(q.set))
	if live || watched == nil || watched.ResourceVersion == base.ResourceVersion {
		return nil
	}
	return watched
}

// pause waits for a random time after consecutive conflicts. took is the duration of the last
// write. When one of a hundred brokers fails, tens of leaders write the same set. Without the
// pause, each of them would repeat its write after every write of another leader, and an API server
// with a long queue would respond mostly with conflicts. Other sets can be written during the
// pause.
func (w *Writer) pause(ctx context.Context, conflicts int, took time.Duration) {
	w.count(-1)
	defer w.count(1)
	longest := min(max(took, pauseShortest)<<(conflicts-1), pauseLongest)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// count adds change to the number of sets that are being written. A set that continues after a
// pause does not wait for other sets.
func (w *Writer) count(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.running += change
	w.dispatchLocked()
}

func changed(set *partitionset.Set, part part) bool {
	if part == spec {
		return set.SpecChanged()
	}
	return set.StatusChanged()
}

// apply applies changes to a version of the set. It settles changes whose context has ended and, if
// the version is live, refused changes. It returns the changed set, the changes that it contains,
// and the changes that must be decided on the live version.
func (w *Writer) apply(q *queue, base *v1alpha1.PartitionSet, live bool,
	pending []*request) (set *partitionset.Set, applied, refused []*request) {
	decoded, _ := partitionset.Decode(base, q.decoded) // readers report invalid entries
	q.decoded = decoded
	set = decoded.Clone()
	for _, r := range pending {
		err := r.ctx.Err()
		if err == nil {
			err = r.change(set)
			r.refusal = err
			if err != nil && !live {
				refused = append(refused, r)
				continue
			}
		}
		if err != nil {
			r.settled <- err
			continue
		}
		applied = append(applied, r)
	}
	return set, applied, refused
}

func (w *Writer) get(ctx context.Context, q *queue) (*v1alpha1.PartitionSet, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	set, err := w.api.Get(ctx, q.set)
	if errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read PartitionSet %s: %w", ErrConflict, q.set, err)
	}
	return set, nil
}

// update writes one part of the set in place of the version base.
func (w *Writer) update(ctx context.Context, q *queue, part part, base *v1alpha1.PartitionSet,
	set *partitionset.Set) error {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	next := *base // a shallow copy, because the maps are replaced and not modified
	update := w.api.UpdateStatus
	if part == spec {
		set.EncodeSpec(&next)
		update = w.api.UpdateSpec
	} else {
		set.EncodeStatus(&next)
	}
	result, err := update(ctx, &next)
	if err != nil {
		return err
	}
	q.own.record(base, result)
	return nil
}

func settle(requests []*request, err error) {
	for _, r := range requests {
		r.settled <- err
	}
}

// settleUndecided settles changes that were not part of a write. A change that a version has
// refused gets the error of the refusal, which may state that the outcome of an earlier attempt is
// unknown.
func settleUndecided(requests []*request, err error) {
	for _, r := range requests {
		r.settled <- cmp.Or(r.refusal, err)
	}
}

// ownVersions contains the result of the writer's last write of a set, until the watch delivers
// that result or a later version. Without it, each write would conflict with the writer's own
// previous write.
type ownVersions struct {
	result *v1alpha1.PartitionSet
	older  map[string]bool // resourceVersions that the result has replaced
}

// record stores the result of a write.
func (o *ownVersions) record(base, result *v1alpha1.PartitionSet) {
	if o.result == nil || o.result.ResourceVersion != base.ResourceVersion {
		o.older = map[string]bool{}
	}
	o.older[base.ResourceVersion] = true
	o.result = result
}

// latest returns the later of two versions: the watched one, which may be nil, and the writer's own
// result. Between a version in older and the result there is no version of another writer, because
// each write is a compare-and-swap.
func (o *ownVersions) latest(watched *v1alpha1.PartitionSet) *v1alpha1.PartitionSet {
	if o.result != nil && watched != nil && o.older[watched.ResourceVersion] &&
		o.result.UID == watched.UID {
		return o.result
	}
	*o = ownVersions{}
	return watched
}
