package cleannow

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// fakeCleaner is a fake of the cleaner. The tests set its state directly.
type fakeCleaner struct {
	mu      sync.Mutex
	tickets map[logstore.PartitionID]int64
	reject  error
	status  map[logstore.PartitionID]*report.Compaction
}

func newFakeCleaner() *fakeCleaner {
	return &fakeCleaner{tickets: map[logstore.PartitionID]int64{},
		status: map[logstore.PartitionID]*report.Compaction{}}
}

func (p *fakeCleaner) api() Cleaner {
	return Cleaner{
		Request: func(id logstore.PartitionID) (int64, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.reject != nil {
				return 0, p.reject
			}
			p.tickets[id]++
			return p.tickets[id], nil
		},
		Status: func(id logstore.PartitionID) *report.Compaction {
			p.mu.Lock()
			defer p.mu.Unlock()
			status := report.Compaction{}
			if known := p.status[id]; known != nil {
				status = *known
			}
			status.CleanNowAsked = p.tickets[id]
			return &status
		},
	}
}

// report sets the fake cleaner's state for a partition.
func (p *fakeCleaner) report(id logstore.PartitionID, status report.Compaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status[id] = &status
}

func (p *fakeCleaner) requests() (sum int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.tickets {
		sum += n
	}
	return sum
}

// imageWith returns a metadata image of one compacted topic with the given annotation value. Broker
// 0 holds partition 0, and broker 1 holds partition 1.
func imageWith(value string) *metadata.Image {
	return metadata.NewImage("c", metadata.CleanerBudget{}, nil, []*metadata.Topic{{
		Name: "tickets", ID: metadata.ID{1}, CleanNow: value,
		Settings: topicconfig.Settings{Compact: true},
		Partitions: []*metadata.Partition{{Index: 0, Replicas: []int32{0}},
			{Index: 1, Replicas: []int32{1}}},
	}})
}

var ticketsZero = logstore.PartitionID{Topic: "tickets", Index: 0}

var (
	running = report.Compaction{RunningPass: &report.Pass{Trigger: "requested"}}
	served  = report.Compaction{CleanNowServed: 1, LastPass: &report.Pass{Result: "success"}}
)

func newTestTasks(t *testing.T, fsys vfs.FS, p *fakeCleaner) *Tasks {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return New(fsys, "/data", p.api(), slog.New(slog.DiscardHandler))
}

func (c *Tasks) expect(t *testing.T, value, state string) {
	t.Helper()
	got := c.Status(ticketsZero)
	if got == nil || got.Value != value || got.State != state ||
		(got.Finished != nil) != (state == report.CleanNowDone) {
		t.Errorf("got %+v, want %s %s", got, value, state)
	}
}

// TestEachValueIsExecutedOnce checks that each value of the annotation causes one pass over each
// replica of the broker. Neither a restart of the broker nor removing the annotation and setting it
// again may cause a second pass.
func TestEachValueIsExecutedOnce(t *testing.T) {
	mem, p, now := vfs.NewMem(), newFakeCleaner(), time.Unix(1000, 0)
	c := newTestTasks(t, mem, p)
	c.Update(imageWith(""), 0)
	if c.step(now) || c.Status(ticketsZero) != nil {
		t.Error("a task exists without an annotation")
	}
	c.Update(imageWith("monday"), 0)
	c.expect(t, "monday", report.CleanNowPending)
	c.step(now)
	p.report(ticketsZero, running)
	c.step(now)
	c.expect(t, "monday", report.CleanNowRunning)
	c.Update(imageWith("monday"), 0) // another image with the same annotation
	p.report(ticketsZero, served)
	if c.step(now) {
		t.Error("the task is not done")
	}
	c.expect(t, "monday", report.CleanNowDone)

	// A restarted broker reads the completed task from the file.
	again := newTestTasks(t, mem.CrashClone(), p)
	again.Update(imageWith("monday"), 0)
	again.expect(t, "monday", report.CleanNowDone)
	if again.step(now); p.requests() != 1 {
		t.Errorf("got %d requests for one value of one replica, want 1", p.requests())
	}
	again.Update(imageWith(""), 0)
	again.Update(imageWith("monday"), 0) // the annotation was removed and set again
	again.expect(t, "monday", report.CleanNowDone)
	again.Update(imageWith("tuesday"), 0)
	again.step(now)
	if again.expect(t, "tuesday", report.CleanNowPending); p.requests() != 2 {
		t.Errorf("got %d requests, want 2", p.requests())
	}
}

func TestFailedPassIsRetriedAfterItsQuarantine(t *testing.T) {
	p, now := newFakeCleaner(), time.Unix(1000, 0)
	c := newTestTasks(t, vfs.NewMem(), p)
	p.reject = errors.New("no workers")
	c.Update(imageWith("monday"), 0)
	if !c.step(now) {
		t.Error("step returned false while the cleaner rejects requests")
	}
	p.reject = nil
	c.step(now)
	failed := report.Compaction{CleanNowServed: 1, LastPass: &report.Pass{Result: "failed"},
		Reason: "Quarantined"}
	p.report(ticketsZero, failed)
	for range 3 {
		if !c.step(now) {
			t.Error("step returned false during the quarantine")
		}
		c.expect(t, "monday", report.CleanNowFailed)
	}
	if p.requests() != 1 {
		t.Errorf("got %d requests during the quarantine, want 1", p.requests())
	}
	failed.Reason = "BelowDirtyRatio"
	p.report(ticketsZero, failed)
	c.step(now)
	if p.requests() != 2 {
		t.Errorf("got %d requests after the quarantine, want 2", p.requests())
	}
	p.report(ticketsZero, report.Compaction{CleanNowServed: 2,
		LastPass: &report.Pass{Result: "nothing_to_do"}})
	c.step(now)
	c.expect(t, "monday", report.CleanNowDone)
}

// TestRequestIsRepeatedForAReopenedLog checks that a request is repeated once if the cleaner has
// lost it because the log was reopened.
func TestRequestIsRepeatedForAReopenedLog(t *testing.T) {
	p, now := newFakeCleaner(), time.Unix(1000, 0)
	c := newTestTasks(t, vfs.NewMem(), p)
	c.Update(imageWith("monday"), 0)
	c.step(now)
	p.mu.Lock()
	p.tickets = map[logstore.PartitionID]int64{}
	p.mu.Unlock()
	c.step(now)
	c.step(now)
	if p.requests() != 1 {
		t.Errorf("got %d requests, want 1", p.requests())
	}
}

// TestTopicOfTheSameNameIsCleanedAgain checks that the replicas of a topic that was deleted and
// created again with the same annotation are cleaned again. The tasks for the deleted topic must be
// removed.
func TestTopicOfTheSameNameIsCleanedAgain(t *testing.T) {
	mem, p, now := vfs.NewMem(), newFakeCleaner(), time.Unix(1000, 0)
	c := newTestTasks(t, mem, p)
	c.Update(imageWith("monday"), 0)
	c.step(now)
	p.report(ticketsZero, served)
	c.step(now)
	other := imageWith("monday")
	other.Topics[0].ID = metadata.ID{2}
	c.Update(other, 0)
	c.expect(t, "monday", report.CleanNowPending)
	other.Topics[0].Settings.Compact = false
	if c.Update(other, 0); c.Status(ticketsZero) != nil {
		t.Error("a topic that is not compacted has a task")
	}
	c.Update(metadata.NewImage("c", metadata.CleanerBudget{}, nil, nil), 0)
	if len(c.mu.tasks) != 0 {
		t.Errorf("got tasks of a deleted topic: %v", c.mu.tasks)
	}
}

// TestFailedWriteIsRetried checks that step returns true and retries while the file cannot be
// written, and that only the first failure is logged.
func TestFailedWriteIsRetried(t *testing.T) {
	fault, p, now := vfs.NewFault(vfs.NewMem()), newFakeCleaner(), time.Unix(1000, 0)
	c := newTestTasks(t, fault, p)
	c.Update(imageWith("monday"), 0)
	c.step(now)
	p.report(ticketsZero, served)
	const tries = 5
	var log strings.Builder
	c.logger = slog.New(slog.NewTextHandler(&log, nil))
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Times: tries})
	for range tries {
		if !c.step(now) {
			t.Error("step returned false although the file was not written")
		}
	}
	if c.step(now) {
		t.Error("step returned true after the file was written")
	}
	if warned := strings.Count(log.String(), "level=WARN"); warned != 1 {
		t.Errorf("got %d warnings, want 1:\n%s", warned, log.String())
	}
	if got := readFile(fault, "/data",
		slog.New(slog.DiscardHandler)); got[ticketsZero].done != "monday" {
		t.Errorf("got file %+v, want value monday", got)
	}
}

// TestRunPollsUntilAllIsDone checks that Run requests a pass immediately after an update, and then
// polls until the task is done.
func TestRunPollsUntilAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeCleaner()
		c := newTestTasks(t, vfs.NewMem(), p)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		synctest.Wait()
		c.Update(imageWith("monday"), 0)
		synctest.Wait()
		if p.requests() != 1 {
			t.Errorf("got %d requests after the update, want 1", p.requests())
		}
		p.report(ticketsZero, served)
		time.Sleep(2 * interval)
		synctest.Wait()
		c.expect(t, "monday", report.CleanNowDone)
		cancel()
		<-ended
	})
}

func TestCleanNowFileRoundTrips(t *testing.T) {
	tasks := map[logstore.PartitionID]task{
		{Topic: "b", Index: 10}: {topic: metadata.ID{2}, state: report.CleanNowDone,
			done: "tu\"es\nday", finished: time.UnixMilli(1234)},
		{Topic: "b", Index: 9}: {topic: metadata.ID{2}, state: report.CleanNowDone, done: "monday",
			finished: time.UnixMilli(5)},
		{Topic: "a", Index: 0}: {topic: metadata.ID{1}, state: report.CleanNowDone, done: "x",
			finished: time.UnixMilli(6)},
	}
	content, err := encode(tasks)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(content)
	if diff := cmp.Diff(tasks, got, cmp.AllowUnexported(task{})); err != nil || diff != "" {
		t.Errorf("error %v, tasks (-want +got):\n%s", err, diff)
	}
	clone := maps.Clone(tasks)
	clone[logstore.PartitionID{Topic: "open"}] = task{target: "never done"}
	if again, _ := encode(clone); !bytes.Equal(again, content) {
		t.Errorf("the file contains a task that is not done: %s", again)
	}
}

func TestDamagedCleanNowFileIsIgnored(t *testing.T) {
	for _, content := range []string{
		"", "{", "[]", `{"version":2,"done":[]}`, `{"version":1,"done":[],"more":1}`,
		`{"version":1,"done":[]} {}`,
		`{"version":1,"done":[{"topic":"a","topicId":"short","partition":0,"value":"x","finishedMs":1}]}`,
		`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":-1,"value":"x","finishedMs":1}]}`,
		`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":0,"value":"","finishedMs":1}]}`,
	} {
		if got, err := decode([]byte(content)); err == nil {
			t.Errorf("%q: got %v, want an error", content, got)
		}
		mem := vfs.NewMem()
		if err := errors.Join(mem.MkdirAll("/data"),
			vfs.WriteFileAtomic(mem, "/data/"+FileName, []byte(content))); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if got := readFile(mem, "/data",
			slog.New(slog.NewTextHandler(&log, nil))); len(got) != 0 || log.Len() == 0 {
			t.Errorf("%q: got tasks %v, log %q, want no task and a warning", content, got, log.String())
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(
		[]byte(
			`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":0,"value":"x","finishedMs":1}]}`,
		),
	)
	f.Fuzz(func(t *testing.T, content []byte) {
		tasks, err := decode(content)
		if err != nil {
			return
		}
		encoded, err := encode(tasks)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(encoded)
		if diff := cmp.Diff(tasks, again, cmp.AllowUnexported(task{})); err != nil ||
			diff != "" {
			t.Fatalf("error %v, tasks (-want +got):\n%s", err, diff)
		}
	})
}
