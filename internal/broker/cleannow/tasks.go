package cleannow

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// Tasks executes the annotation heartwood.dev/clean-now: it requests one pass over each replica on
// this broker for each value of the annotation. A value is done when its pass has completed. The
// values that are done are stored in a file (file.go), so that no pass is repeated after a restart
// of the operator or the broker.
//
// Only one goroutine, Run, advances tasks. While it holds the lock, it calls neither the cleaner
// nor the disk.
type Tasks struct {
	fs      vfs.FS
	dir     string
	cleaner Cleaner
	logger  *slog.Logger
	wake    chan struct{} // buffer of one; a token means that the tasks may have changed
	writing sync.Mutex    // held while the file is written; acquired before mu

	mu struct {
		sync.Mutex
		tasks map[logstore.PartitionID]task
		// unsaved is true if tasks have been completed since the file was last written.
		unsaved bool
		saves   outage.State // failed writes of the file, which are retried every second
	}
}

// Cleaner contains the functions of the cleaner that Tasks uses.
type Cleaner struct {
	// Request requests a pass and returns the request's ticket, 1 or higher. It is
	// cleaner.Cleaner.CleanNow.
	Request func(logstore.PartitionID) (ticket int64, err error)
	// Status returns a log's compaction state, or nil if the log does not exist or is not compacted.
	Status func(logstore.PartitionID) *report.Compaction
}

// task is the state of the annotation for one replica. The state changes from pending to running to
// done. If the pass fails, the state is failed, and it becomes pending again when the log leaves
// quarantine.
type task struct {
	topic  metadata.ID
	target string // the value of the annotation; "": the topic has no annotation
	state  string // one of report.CleanNow*; meaningless while target is ""
	ticket int64  // ticket of the requested pass; 0: no pass was requested

	done     string    // the last completed value; "": none
	finished time.Time // time at which done was completed
}

// interval is how often the progress of requested passes is polled.
const interval = time.Second

// New returns Tasks for the broker with the data directory dir. It reads the completed values from
// the file.
func New(fsys vfs.FS, dir string, cleaner Cleaner, logger *slog.Logger) *Tasks {
	c := &Tasks{fs: fsys, dir: dir, cleaner: cleaner, logger: logger,
		wake: make(chan struct{}, 1)}
	c.mu.tasks = readFile(fsys, dir, logger)
	return c
}

// Update sets the tasks for the broker's replicas from a metadata image. It removes the tasks for
// replicas that are no longer on the broker, or whose topic was deleted.
func (c *Tasks) Update(image *metadata.Image, broker int32) {
	targets := map[logstore.PartitionID]task{}
	for _, topic := range image.Topics {
		for _, partition := range topic.Partitions {
			for _, replica := range partition.Replicas {
				if replica == broker {
					targets[logstore.PartitionID{Topic: topic.Name,
						Index: partition.Index}] = task{topic: topic.ID,
						target: valueOf(topic)}
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.mu.tasks {
		if now, ok := targets[id]; !ok || now.topic != known.topic {
			delete(c.mu.tasks, id)
		}
	}
	for id, now := range targets {
		known, ok := c.mu.tasks[id]
		switch {
		case !ok && now.target == "":
			continue
		case !ok:
			known = now
			known.state = report.CleanNowPending
		case known.target != now.target:
			known.target, known.ticket, known.state = now.target, 0, report.CleanNowPending
			if known.done == known.target {
				known.state = report.CleanNowDone
			}
		}
		c.mu.tasks[id] = known
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// valueOf returns the value of the topic's annotation, or "" if the topic is not compacted.
func valueOf(topic *metadata.Topic) string {
	if !topic.Settings.Compact {
		return ""
	}
	return topic.CleanNow
}

// Status returns a replica's state for the report, or nil if the topic has no annotation.
func (c *Tasks) Status(id logstore.PartitionID) *report.CleanNow {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.mu.tasks[id]
	if w.target == "" {
		return nil
	}
	reported := &report.CleanNow{Value: w.target, State: w.state}
	if w.state == report.CleanNowDone {
		seconds := float64(w.finished.UnixMilli()) / 1000
		reported.Finished = &seconds
	}
	return reported
}

// Run advances the tasks until ctx ends. It does so immediately after each update, and once per
// interval while any task is not done.
func (c *Tasks) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		if c.step(time.Now()) {
			timer.Reset(interval)
		}
	}
}

// step advances each open task by at most one state, and saves the tasks. It reports whether any
// task is not done or not saved yet.
func (c *Tasks) step(now time.Time) (open bool) {
	for id, w := range c.open() {
		after := c.advance(id, w, now)
		if after != w {
			c.put(id, w, after)
		}
		open = open || after.state != report.CleanNowDone
	}
	return !c.save() || open
}

// open returns the tasks that are not done.
func (c *Tasks) open() map[logstore.PartitionID]task {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := map[logstore.PartitionID]task{}
	for id, w := range c.mu.tasks {
		if w.target != "" && w.state != report.CleanNowDone {
			open[id] = w
		}
	}
	return open
}

// put replaces a task, unless the task has changed since it was read.
func (c *Tasks) put(id logstore.PartitionID, before, after task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.tasks[id] != before {
		return
	}
	c.mu.tasks[id] = after
	c.mu.unsaved = c.mu.unsaved || after.done != before.done ||
		!after.finished.Equal(before.finished)
}

// advance returns the next state of a task. The task stays pending while the cleaner accepts no
// request because it has no workers or the log does not exist yet. If the log has been reopened,
// the cleaner has lost the request, and advance repeats it.
func (c *Tasks) advance(id logstore.PartitionID, w task, now time.Time) task {
	status := c.cleaner.Status(id)
	switch {
	case status == nil || status.CleanNowAsked < w.ticket:
		w.ticket, w.state = 0, report.CleanNowPending
	case w.ticket == 0 && w.state == report.CleanNowFailed &&
		status.Reason == v1alpha1.ReasonQuarantined:
		// The backoff of the quarantine also applies to the request.
	case w.ticket == 0:
		ticket, err := c.cleaner.Request(id)
		if err != nil {
			c.logger.Debug("clean-now request postponed", "partition", id, "value", w.target,
				"error", err)
			return w
		}
		w.ticket, w.state = ticket, report.CleanNowPending
		c.logger.Info("clean-now pass requested", "partition", id, "value", w.target)
	case status.CleanNowServed < w.ticket:
		if status.RunningPass != nil && status.RunningPass.Trigger == report.TriggerRequested {
			w.state = report.CleanNowRunning
		}
	case status.LastPass != nil && status.LastPass.Result == report.ResultFailed:
		w.ticket, w.state = 0, report.CleanNowFailed
	default:
		w.ticket, w.state, w.done, w.finished = 0, report.CleanNowDone, w.target, now
		c.logger.Info("clean-now pass completed", "partition", id, "value", w.target)
	}
	return w
}
