package broker

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

// pretender is a cleaner that does as it is told.
type pretender struct {
	mu     sync.Mutex
	asked  map[logstore.PartitionID]int64
	refuse error
	status map[logstore.PartitionID]*report.Compaction
}

func newPretender() *pretender {
	return &pretender{asked: map[logstore.PartitionID]int64{},
		status: map[logstore.PartitionID]*report.Compaction{}}
}

func (p *pretender) seam() cleanerSeam {
	return cleanerSeam{
		ask: func(id logstore.PartitionID) (int64, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.refuse != nil {
				return 0, p.refuse
			}
			p.asked[id]++
			return p.asked[id], nil
		},
		status: func(id logstore.PartitionID) *report.Compaction {
			p.mu.Lock()
			defer p.mu.Unlock()
			status := report.Compaction{}
			if known := p.status[id]; known != nil {
				status = *known
			}
			status.CleanNowAsked = p.asked[id]
			return &status
		},
	}
}

// says sets what the cleaner reports of a partition.
func (p *pretender) says(id logstore.PartitionID, status report.Compaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status[id] = &status
}

func (p *pretender) count() (asked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.asked {
		asked += n
	}
	return asked
}

// imageWith is an image of one compacted topic; broker 0 has the first of its two partitions.
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

func newTestCleanNow(t *testing.T, fsys vfs.FS, p *pretender) *cleanNow {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll("/data"), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return newCleanNow(fsys, "/data", p.seam(), slog.New(slog.DiscardHandler))
}

func (c *cleanNow) expect(t *testing.T, value, state string) {
	t.Helper()
	got := c.of(ticketsZero)
	if got == nil || got.Value != value || got.State != state ||
		(got.Finished != nil) != (state == report.CleanNowDone) {
		t.Errorf("got %+v, want %s %s", got, value, state)
	}
}

// TestEachValueIsCleanedForOnce over restarts of the broker, and only on replicas that it has.
func TestEachValueIsCleanedForOnce(t *testing.T) {
	mem, p, now := vfs.NewMem(), newPretender(), time.Unix(1000, 0)
	c := newTestCleanNow(t, mem, p)
	c.want(imageWith(""), 0)
	if c.step(now) || c.of(ticketsZero) != nil {
		t.Error("something is open though nothing was wanted")
	}
	c.want(imageWith("monday"), 0)
	c.expect(t, "monday", report.CleanNowPending)
	c.step(now)
	p.says(ticketsZero, running)
	c.step(now)
	c.expect(t, "monday", report.CleanNowRunning)
	c.want(imageWith("monday"), 0) // another image, for another reason
	p.says(ticketsZero, served)
	if c.step(now) {
		t.Error("still open")
	}
	c.expect(t, "monday", report.CleanNowDone)

	// A start finds what was done, and nothing that was not.
	again := newTestCleanNow(t, mem.CrashClone(), p)
	again.want(imageWith("monday"), 0)
	again.expect(t, "monday", report.CleanNowDone)
	if again.step(now); p.count() != 1 {
		t.Errorf("asked %d times for one value of one replica", p.count())
	}
	again.want(imageWith(""), 0)
	again.want(imageWith("monday"), 0) // the annotation went, and came back
	again.expect(t, "monday", report.CleanNowDone)
	again.want(imageWith("tuesday"), 0)
	again.step(now)
	if again.expect(t, "tuesday", report.CleanNowPending); p.count() != 2 {
		t.Errorf("asked %d times", p.count())
	}
}

func TestACleanThatFailsIsTriedAgainAfterItsQuarantine(t *testing.T) {
	p, now := newPretender(), time.Unix(1000, 0)
	c := newTestCleanNow(t, vfs.NewMem(), p)
	p.refuse = errors.New("no workers")
	c.want(imageWith("monday"), 0)
	if !c.step(now) {
		t.Error("given up because the cleaner takes no request now")
	}
	p.refuse = nil
	c.step(now)
	failed := report.Compaction{CleanNowServed: 1, LastPass: &report.Pass{Result: "failed"},
		Reason: "Quarantined"}
	p.says(ticketsZero, failed)
	for range 3 {
		if !c.step(now) {
			t.Error("given up")
		}
		c.expect(t, "monday", report.CleanNowFailed)
	}
	if p.count() != 1 {
		t.Errorf("asked %d times during the quarantine", p.count())
	}
	failed.Reason = "BelowDirtyRatio"
	p.says(ticketsZero, failed)
	c.step(now)
	if p.count() != 2 {
		t.Errorf("asked %d times after the quarantine", p.count())
	}
	p.says(ticketsZero, report.Compaction{CleanNowServed: 2,
		LastPass: &report.Pass{Result: "nothing_to_do"}})
	c.step(now)
	c.expect(t, "monday", report.CleanNowDone)
}

// TestALogMadeAnewIsAskedAgain: its cleaner knows nothing of the request.
func TestALogMadeAnewIsAskedAgain(t *testing.T) {
	p, now := newPretender(), time.Unix(1000, 0)
	c := newTestCleanNow(t, vfs.NewMem(), p)
	c.want(imageWith("monday"), 0)
	c.step(now)
	p.mu.Lock()
	p.asked = map[logstore.PartitionID]int64{}
	p.mu.Unlock()
	c.step(now)
	c.step(now)
	if p.count() != 1 {
		t.Errorf("asked %d times", p.count())
	}
}

// TestATopicOfTheSameNameStartsAnew, and what is remembered of topics that are gone goes.
func TestATopicOfTheSameNameStartsAnew(t *testing.T) {
	mem, p, now := vfs.NewMem(), newPretender(), time.Unix(1000, 0)
	c := newTestCleanNow(t, mem, p)
	c.want(imageWith("monday"), 0)
	c.step(now)
	p.says(ticketsZero, served)
	c.step(now)
	other := imageWith("monday")
	other.Topics[0].ID = metadata.ID{2}
	c.want(other, 0)
	c.expect(t, "monday", report.CleanNowPending)
	other.Topics[0].Settings.Compact = false
	if c.want(other, 0); c.of(ticketsZero) != nil {
		t.Error("a topic that is not compacted is to be cleaned")
	}
	c.want(metadata.NewImage("c", metadata.CleanerBudget{}, nil, nil), 0)
	if len(c.mu.wishes) != 0 {
		t.Errorf("remembered of a topic that is gone: %v", c.mu.wishes)
	}
}

// TestWhatCannotBeWrittenIsTriedAgain: a full disk does not end it, and is told once.
func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	fault, p, now := vfs.NewFault(vfs.NewMem()), newPretender(), time.Unix(1000, 0)
	c := newTestCleanNow(t, fault, p)
	c.want(imageWith("monday"), 0)
	c.step(now)
	p.says(ticketsZero, served)
	const tries = 5
	var log strings.Builder
	c.logger = slog.New(slog.NewTextHandler(&log, nil))
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Times: tries})
	for range tries {
		if !c.step(now) {
			t.Error("nothing is open though the file was not written")
		}
	}
	if c.step(now) {
		t.Error("the file was not written once it could be")
	}
	if warned := strings.Count(log.String(), "level=WARN"); warned != 1 {
		t.Errorf("%d warnings:\n%s", warned, log.String())
	}
	if got := readCleanNow(fault, "/data",
		slog.New(slog.DiscardHandler)); got[ticketsZero].done != "monday" {
		t.Errorf("the file says %+v", got)
	}
}

// TestRunGoesOnUntilAllIsDone, and sleeps then.
func TestRunGoesOnUntilAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPretender()
		c := newTestCleanNow(t, vfs.NewMem(), p)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.run(ctx) }()
		synctest.Wait()
		c.want(imageWith("monday"), 0)
		synctest.Wait()
		if p.count() != 1 {
			t.Errorf("asked %d times at once", p.count())
		}
		p.says(ticketsZero, served)
		time.Sleep(2 * cleanNowInterval)
		synctest.Wait()
		c.expect(t, "monday", report.CleanNowDone)
		cancel()
		<-ended
	})
}

func TestTheFileComesBackAsItWas(t *testing.T) {
	wishes := map[logstore.PartitionID]wish{
		{Topic: "b", Index: 10}: {topic: metadata.ID{2}, state: report.CleanNowDone,
			done: "tu\"es\nday", finished: time.UnixMilli(1234)},
		{Topic: "b", Index: 9}: {topic: metadata.ID{2}, state: report.CleanNowDone, done: "monday",
			finished: time.UnixMilli(5)},
		{Topic: "a", Index: 0}: {topic: metadata.ID{1}, state: report.CleanNowDone, done: "x",
			finished: time.UnixMilli(6)},
	}
	content, err := encodeCleanNow(wishes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeCleanNow(content)
	if diff := cmp.Diff(wishes, got, cmp.AllowUnexported(wish{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	clone := maps.Clone(wishes)
	clone[logstore.PartitionID{Topic: "open"}] = wish{wanted: "never done"}
	if again, _ := encodeCleanNow(clone); !bytes.Equal(again, content) {
		t.Errorf("what is not done is in the file: %s", again)
	}
}

func TestADamagedFileIsForgotten(t *testing.T) {
	for _, content := range []string{
		"", "{", "[]", `{"version":2,"done":[]}`, `{"version":1,"done":[],"more":1}`,
		`{"version":1,"done":[]} {}`,
		`{"version":1,"done":[{"topic":"a","topicId":"short","partition":0,"value":"x","finishedMs":1}]}`,
		`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":-1,"value":"x","finishedMs":1}]}`,
		`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":0,"value":"","finishedMs":1}]}`,
	} {
		if got, err := decodeCleanNow([]byte(content)); err == nil {
			t.Errorf("%q: %v, want an error", content, got)
		}
		mem := vfs.NewMem()
		if err := errors.Join(mem.MkdirAll("/data"),
			vfs.WriteFileAtomic(mem, "/data/"+cleanNowFile, []byte(content))); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if got := readCleanNow(mem, "/data",
			slog.New(slog.NewTextHandler(&log, nil))); len(got) != 0 || log.Len() == 0 {
			t.Errorf("%q: %v, logged %q", content, got, log.String())
		}
	}
}

func FuzzDecodeCleanNow(f *testing.F) {
	f.Add(
		[]byte(
			`{"version":1,"done":[{"topic":"a","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":0,"value":"x","finishedMs":1}]}`,
		),
	)
	f.Fuzz(func(t *testing.T, content []byte) {
		wishes, err := decodeCleanNow(content)
		if err != nil {
			return
		}
		encoded, err := encodeCleanNow(wishes)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeCleanNow(encoded)
		if diff := cmp.Diff(wishes, again, cmp.AllowUnexported(wish{})); err != nil || diff != "" {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}
