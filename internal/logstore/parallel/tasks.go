package parallel

import (
	"context"
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// Tasks tracks tasks that write files in a log's directory and commit them later, such as repairs.
// The zero value is ready to use. After the directory of a closed log was renamed, its name may
// belong to another log. So the log waits, before it closes, until no task writes.
type Tasks struct {
	mu      sync.Mutex
	ended   bool
	cancels map[*context.CancelFunc]bool
	running sync.WaitGroup
}

// Do calls a task, unless the log is closed. It cancels the task's context when the log closes, and
// returns segmentlist.ErrChanged for a task that failed for that reason.
func (t *Tasks) Do(ctx context.Context, task func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !t.begin(&cancel) {
		return segmentlist.ErrClosed
	}
	defer t.finish(&cancel)
	err := task(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.ended {
		// The kind of the task's own error must have no effect.
		return fmt.Errorf("%w: the log was closed: %s", segmentlist.ErrChanged, err.Error())
	}
	return err
}

func (t *Tasks) begin(cancel *context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	if t.cancels == nil {
		t.cancels = map[*context.CancelFunc]bool{}
	}
	t.cancels[cancel] = true
	t.running.Add(1)
	return true
}

func (t *Tasks) finish(cancel *context.CancelFunc) {
	t.mu.Lock()
	delete(t.cancels, cancel)
	t.mu.Unlock()
	t.running.Done()
}

// End cancels the tasks that run, waits until they have returned, and refuses later ones. The
// caller holds no lock of the log.
func (t *Tasks) End() {
	t.mu.Lock()
	t.ended = true
	for cancel := range t.cancels {
		(*cancel)()
	}
	t.mu.Unlock()
	t.running.Wait()
}
