package broker

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

// cleanNow executes the annotation heartwood.dev/clean-now: each replica on this broker is cleaned
// once for each value of the annotation. A value is done when a pass that was requested for the
// value has completed. The broker records the values that are done in a file (clean_now_file.go),
// so that no restart of the operator or the broker repeats a pass.
//
// It has one goroutine, run. The lock is a leaf: no call to the cleaner or the disk is made under
// it.
type cleanNow struct {
	fs      vfs.FS
	dir     string
	cleaner cleanerAPI
	logger  *slog.Logger
	wake    chan struct{} // holds one token: a task is new

	mu struct {
		sync.Mutex
		tasks map[logstore.PartitionID]cleanNowTask
		// unsaved reports whether tasks were completed after the last write of the file.
		unsaved bool
		saves   outage.State // writes of the file, retried every second
	}
}

// cleanerAPI is the part of the cleaner that cleanNow uses.
type cleanerAPI struct {
	// request is cleaner.Cleaner.CleanNow: it requests a pass and returns the ticket of the
	// request, 1 or higher.
	request func(logstore.PartitionID) (ticket int64, err error)
	// status returns nil if there is no such log, or if the log is not compacted.
	status func(logstore.PartitionID) *report.Compaction
}

// cleanNowTask is the state of one replica: pending, running, done. A failed pass makes it failed,
// and it is pending again when the log leaves quarantine or when the broker that was asked has
// restarted.
type cleanNowTask struct {
	topic  metadata.ID
	target string // the value of the annotation; "": none
	state  string // of target, one of report.CleanNow*; undefined without target
	ticket int64  // of the request; 0: not requested

	done     string    // the value completed last; "": none
	finished time.Time // when done was completed
}

// cleanNowInterval is how often the progress of requested passes is polled.
const cleanNowInterval = time.Second

func newCleanNow(fsys vfs.FS, dir string, cleaner cleanerAPI, logger *slog.Logger) *cleanNow {
	c := &cleanNow{fs: fsys, dir: dir, cleaner: cleaner, logger: logger,
		wake: make(chan struct{}, 1)}
	c.mu.tasks = readCleanNow(fsys, dir, logger)
	return c
}

// update sets the tasks of the replicas on a broker from an image. Tasks of deleted topics are
// removed.
func (c *cleanNow) update(image *metadata.Image, broker int32) {
	targets := map[logstore.PartitionID]cleanNowTask{}
	for _, topic := range image.Topics {
		for _, partition := range topic.Partitions {
			for _, replica := range partition.Replicas {
				if replica == broker {
					targets[logstore.PartitionID{Topic: topic.Name,
						Index: partition.Index}] = cleanNowTask{topic: topic.ID,
						target: cleanNowOf(topic)}
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

// cleanNowOf returns the annotation of a topic, "" unless the topic is compacted.
func cleanNowOf(topic *metadata.Topic) string {
	if !topic.Settings.Compact {
		return ""
	}
	return topic.CleanNow
}

// status returns the state of a replica for the report, nil if nothing is requested.
func (c *cleanNow) status(id logstore.PartitionID) *report.CleanNow {
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

// run advances the tasks until ctx ends: at once when one is new, then each cleanNowInterval while
// one is open.
func (c *cleanNow) run(ctx context.Context) {
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
			timer.Reset(cleanNowInterval)
		}
	}
}

// step advances every open task once, and reports whether any is still open or unsaved.
func (c *cleanNow) step(now time.Time) (open bool) {
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
func (c *cleanNow) open() map[logstore.PartitionID]cleanNowTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := map[logstore.PartitionID]cleanNowTask{}
	for id, w := range c.mu.tasks {
		if w.target != "" && w.state != report.CleanNowDone {
			open[id] = w
		}
	}
	return open
}

// put replaces a task, unless its target has changed meanwhile.
func (c *cleanNow) put(id logstore.PartitionID, before, after cleanNowTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.tasks[id] != before {
		return
	}
	c.mu.tasks[id] = after
	c.mu.unsaved = c.mu.unsaved || after.done != before.done ||
		!after.finished.Equal(before.finished)
}

// advance returns the next state of a task. While the cleaner accepts no request (it has no
// workers, or the log does not exist yet) the task stays pending. A request that the cleaner has
// lost, because the log was reopened, is repeated.
func (c *cleanNow) advance(id logstore.PartitionID, w cleanNowTask, now time.Time) cleanNowTask {
	status := c.cleaner.status(id)
	switch {
	case status == nil || status.CleanNowAsked < w.ticket:
		w.ticket, w.state = 0, report.CleanNowPending
	case w.ticket == 0 && w.state == report.CleanNowFailed &&
		status.Reason == v1alpha1.ReasonQuarantined:
		// The backoff of the quarantine also delays the request.
	case w.ticket == 0:
		ticket, err := c.cleaner.request(id)
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
