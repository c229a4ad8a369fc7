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

// cleanNow carries out the annotation heartwood.dev/clean-now: each replica on this broker is
// cleaned once for each value that its topic gets. A value counts as done when a pass that it asked
// for has ended; that is remembered in a file (clean_now_file.go), so that no restart, of the
// operator or of the broker, has it done again.
//
// It has one goroutine, run. The lock is a leaf: neither cleaner nor disk is asked under it.
type cleanNow struct {
	fs      vfs.FS
	dir     string
	cleaner cleanerSeam
	logger  *slog.Logger
	wake    chan struct{} // holds one: there is a new wish

	mu struct {
		sync.Mutex
		wishes map[logstore.PartitionID]wish
		// unsaved tells that wishes say more is done than the file does.
		unsaved bool
		saves   outage.State // of the file; a full disk is tried again every second
	}
}

// cleanerSeam is what cleanNow needs of the cleaner.
type cleanerSeam struct {
	// ask is cleaner.Cleaner.CleanNow: it asks for a pass and returns the request's ticket, 1 or
	// higher.
	ask    func(logstore.PartitionID) (ticket int64, err error)
	status func(logstore.PartitionID) *report.Compaction // nil: no such log, or it is not compacted
}

// wish is what is known of one replica. Its life: pending, running, done; by way of failed when the
// pass fails, and back to pending when the log is out of quarantine, or when the process that had
// been asked is gone.
type wish struct {
	topic  metadata.ID
	wanted string // the annotation's value; "": none
	state  string // of wanted, one of report.CleanNow*; meaningless without it
	ticket int64  // of the request; 0: not asked

	done     string    // the value that was done last; "": none
	finished time.Time // when
}

// cleanNowInterval is how often a replica that is being cleaned is looked at.
const cleanNowInterval = time.Second

func newCleanNow(fsys vfs.FS, dir string, cleaner cleanerSeam, logger *slog.Logger) *cleanNow {
	c := &cleanNow{fs: fsys, dir: dir, cleaner: cleaner, logger: logger,
		wake: make(chan struct{}, 1)}
	c.mu.wishes = readCleanNow(fsys, dir, logger)
	return c
}

// want takes up what an image asks of the replicas on a broker. What was done for topics that are
// gone is forgotten.
func (c *cleanNow) want(image *metadata.Image, broker int32) {
	wanted := map[logstore.PartitionID]wish{}
	for _, topic := range image.Topics {
		for _, partition := range topic.Partitions {
			for _, replica := range partition.Replicas {
				if replica == broker {
					wanted[logstore.PartitionID{Topic: topic.Name,
						Index: partition.Index}] = wish{topic: topic.ID, wanted: cleanNowOf(topic)}
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range c.mu.wishes {
		if now, ok := wanted[id]; !ok || now.topic != known.topic {
			delete(c.mu.wishes, id)
		}
	}
	for id, now := range wanted {
		known, ok := c.mu.wishes[id]
		switch {
		case !ok && now.wanted == "":
			continue
		case !ok:
			known = now
			known.state = report.CleanNowPending
		case known.wanted != now.wanted:
			known.wanted, known.ticket, known.state = now.wanted, 0, report.CleanNowPending
			if known.done == known.wanted {
				known.state = report.CleanNowDone
			}
		}
		c.mu.wishes[id] = known
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cleanNowOf is the value for topics that the cleaner works on.
func cleanNowOf(topic *metadata.Topic) string {
	if !topic.Settings.Compact {
		return ""
	}
	return topic.CleanNow
}

// of is what the report says of a replica; nil if nothing was asked for.
func (c *cleanNow) of(id logstore.PartitionID) *report.CleanNow {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.mu.wishes[id]
	if w.wanted == "" {
		return nil
	}
	shown := &report.CleanNow{Value: w.wanted, State: w.state}
	if w.state == report.CleanNowDone {
		seconds := float64(w.finished.UnixMilli()) / 1000
		shown.Finished = &seconds
	}
	return shown
}

// run goes on with the wishes until ctx ends: at once when there is a new one, then each
// cleanNowInterval while one is open.
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

// step asks the cleaner once about each wish that is open, and tells whether one is still.
func (c *cleanNow) step(now time.Time) (open bool) {
	for id, w := range c.open() {
		after := c.follow(id, w, now)
		if after != w {
			c.put(id, w, after)
		}
		open = open || after.state != report.CleanNowDone
	}
	return !c.save() || open
}

// open returns the wishes that are not done.
func (c *cleanNow) open() map[logstore.PartitionID]wish {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := map[logstore.PartitionID]wish{}
	for id, w := range c.mu.wishes {
		if w.wanted != "" && w.state != report.CleanNowDone {
			open[id] = w
		}
	}
	return open
}

// put replaces a wish, unless another value was wanted meanwhile.
func (c *cleanNow) put(id logstore.PartitionID, before, after wish) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wishes[id] != before {
		return
	}
	c.mu.wishes[id] = after
	c.mu.unsaved = c.mu.unsaved || after.done != before.done ||
		!after.finished.Equal(before.finished)
}

// follow is one step in a wish's life. While the cleaner takes no request (it has no workers, the
// log is not there yet) the wish stays pending. A request that the cleaner does not know, as the
// log was made anew, is made again.
func (c *cleanNow) follow(id logstore.PartitionID, w wish, now time.Time) wish {
	status := c.cleaner.status(id)
	switch {
	case status == nil || status.CleanNowAsked < w.ticket:
		w.ticket, w.state = 0, report.CleanNowPending
	case w.ticket == 0 && w.state == report.CleanNowFailed && status.Reason == v1alpha1.ReasonQuarantined:
		// The back-off of the quarantine is that of the request, too.
	case w.ticket == 0:
		ticket, err := c.cleaner.ask(id)
		if err != nil {
			c.logger.Debug("clean now waits", "partition", id, "value", w.wanted, "error", err)
			return w
		}
		w.ticket, w.state = ticket, report.CleanNowPending
		c.logger.Info("clean now asked", "partition", id, "value", w.wanted)
	case status.CleanNowServed < w.ticket:
		if status.RunningPass != nil && status.RunningPass.Trigger == report.TriggerRequested {
			w.state = report.CleanNowRunning
		}
	case status.LastPass != nil && status.LastPass.Result == report.ResultFailed:
		w.ticket, w.state = 0, report.CleanNowFailed
	default:
		w.ticket, w.state, w.done, w.finished = 0, report.CleanNowDone, w.wanted, now
		c.logger.Info("clean now done", "partition", id, "value", w.wanted)
	}
	return w
}
