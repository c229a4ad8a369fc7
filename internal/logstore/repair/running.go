package repair

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// Running tracks the repairs of a log that write files before their commit point. The zero value
// is ready to use. After the directory of a closed log was renamed, its name may belong to another
// log. So the log waits, before it closes, until no repair writes.
type Running struct {
	mu      sync.Mutex
	ended   bool
	cancels map[*context.CancelFunc]bool
	repairs sync.WaitGroup
}

// Do calls a repair, unless the log is closed. It cancels the repair's context when the log closes,
// and returns segmentlist.ErrChanged for a repair that failed for that reason.
func (r *Running) Do(ctx context.Context, repair func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !r.begin(&cancel) {
		return segmentlist.ErrClosed
	}
	defer r.finish(&cancel)
	err := repair(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.ended {
		return fmt.Errorf("%w: the log was closed: %w", segmentlist.ErrChanged, hide(err))
	}
	return err
}

// hide returns an error with the same text that wraps nothing, so that its kind has no effect.
func hide(err error) error { return errors.New(err.Error()) }

func (r *Running) begin(cancel *context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	if r.cancels == nil {
		r.cancels = map[*context.CancelFunc]bool{}
	}
	r.cancels[cancel] = true
	r.repairs.Add(1)
	return true
}

func (r *Running) finish(cancel *context.CancelFunc) {
	r.mu.Lock()
	delete(r.cancels, cancel)
	r.mu.Unlock()
	r.repairs.Done()
}

// End cancels the repairs that run, waits until they have returned, and refuses later ones. The
// caller holds no lock of the log.
func (r *Running) End() {
	r.mu.Lock()
	r.ended = true
	for cancel := range r.cancels {
		(*cancel)()
	}
	r.mu.Unlock()
	r.repairs.Wait()
}
