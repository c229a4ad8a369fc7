package passlog

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/vfs"
)

// stepsMax is the maximum number of steps of all passes in memory, which take some four megabytes.
const stepsMax = 32 << 10

// Observer receives the passes and the steps of a Log. The goroutines of the passes call its
// functions, in the order of the events of each pass. The functions must not block, and may be nil.
type Observer struct {
	Pass func(report.PartitionPass) // called when a pass has begun or ended; without the steps
	Step func(report.StepEvent)
}

// Options are the options of a Log.
type Options struct {
	FS       vfs.FS // nil to keep the passes in memory only
	Dir      string // data directory of the broker
	Broker   int32  // broker id in reports
	Observer Observer
	Logger   *slog.Logger // by default, a logger that discards everything
	// Logs returns the keys of the logs that exist. When the totals file is replaced, the totals of
	// other logs are discarded. If Logs is nil or returns nil, no totals are discarded.
	Logs func() map[Key]bool
}

// Log is the list of the last passes, and each log's totals of all passes.
type Log struct {
	opts       Options
	writing    sync.Mutex
	file       passFile   // guarded by writing
	totalsFile totalsFile // guarded by writing
	mu         struct {
		sync.Mutex
		passes []*entry // ascending by id
		steps  int      // number of steps of all passes that have ended
		lastID int64
		totals map[Key]Totals
	}
}

// entry is one pass. Log.mu guards it.
type entry struct {
	pass     report.PartitionPass // pass without its steps
	steps    []report.Step        // nil while the pass runs
	recorder *Recorder            // nil if the pass has ended
}

// Open returns a Log with the passes in the files. It logs an error for each file that it cannot
// read.
func Open(opts Options) *Log {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{opts: opts, file: newPassFile(opts)}
	l.totalsFile.lines = newLineFile(opts, totalsName)
	l.mu.totals = map[Key]Totals{}
	if opts.FS == nil {
		return l
	}
	l.mu.totals = l.totalsFile.load()
	for _, pass := range l.file.load() {
		pass.Broker = opts.Broker
		e := &entry{pass: pass, steps: pass.Steps}
		e.pass.Steps = nil
		l.mu.passes = append(l.mu.passes, e)
		l.mu.steps += len(e.steps)
		l.mu.lastID = max(l.mu.lastID, pass.ID)
	}
	l.trimLocked() // no other goroutine uses l yet
	return l
}

// Running is a pass that has begun.
type Running struct {
	log   *Log
	entry *entry
	id    int64
}

// Begin adds a pass that begins at moment. topic and key name the pass's log. The pass's id is the
// time in microseconds, but at least the previous pass's id plus one.
func (l *Log) Begin(topic string, key Key, trigger string, moment time.Time) *Running {
	l.mu.Lock()
	l.mu.lastID = max(l.mu.lastID+1, moment.UnixMicro())
	e := &entry{recorder: newRecorder(moment), pass: report.PartitionPass{
		ID: l.mu.lastID, Broker: l.opts.Broker, Topic: topic, TopicID: key.TopicID,
		Partition: key.Partition,
		Pass:      report.Pass{Trigger: trigger, Began: float64(moment.UnixMilli()) / 1000}}}
	l.mu.passes = append(l.mu.passes, e)
	l.trimLocked()
	began := e.pass
	l.mu.Unlock()
	l.observe(began)
	return &Running{log: l, entry: e, id: began.ID}
}

func (l *Log) observe(pass report.PartitionPass) {
	if l.opts.Observer.Pass != nil {
		l.opts.Observer.Pass(pass)
	}
}

// trimLocked removes the oldest passes and steps that exceed the limits.
func (l *Log) trimLocked() {
	for len(l.mu.passes) > report.PassesMax {
		l.mu.steps -= len(l.mu.passes[0].steps)
		l.mu.passes = slices.Delete(l.mu.passes, 0, 1)
	}
	for _, e := range l.mu.passes {
		if l.mu.steps <= stepsMax {
			return
		}
		l.mu.steps -= len(e.steps)
		e.pass.OmittedSteps += len(e.steps)
		e.steps = nil
	}
}

// ID returns the id of the pass.
func (r *Running) ID() int64 { return r.id }

// Step adds a step that was taken at moment.
func (r *Running) Step(step clean.Step, moment time.Time) {
	r.log.mu.Lock()
	taken := r.entry.recorder.add(step, moment)
	r.log.mu.Unlock()
	r.observe(taken)
}

func (r *Running) observe(step report.Step) {
	if observe := r.log.opts.Observer.Step; observe != nil {
		p := &r.entry.pass // the fields that identify the pass do not change
		observe(report.StepEvent{Broker: p.Broker, Topic: p.Topic, Partition: p.Partition,
			Pass: r.id, Step: step})
	}
}

// End ends the pass at moment with its final report, adds the pass to its log's totals, and writes
// the pass and the totals to the files.
func (r *Running) End(final report.Pass, moment time.Time) {
	l := r.log
	l.mu.Lock()
	e := r.entry
	last := e.recorder.end(moment)
	e.pass.Pass, e.steps, e.pass.OmittedSteps = final, e.recorder.steps, e.recorder.omitted
	e.recorder = nil
	if slices.Contains(l.mu.passes, e) {
		l.mu.steps += len(e.steps)
		l.trimLocked()
	}
	ended, stored := e.pass, e.pass
	stored.Steps, stored.StepCount = e.steps, len(e.steps)
	ended.StepCount = len(e.steps)
	l.mu.Unlock()
	r.observe(last)
	l.observe(ended)
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.opts.FS != nil {
		l.file.append(&stored)
	}
	l.addToTotals(Key{stored.TopicID, stored.Partition}, final)
}

// Files are the names of the files in the data directory.
var Files = []string{fileName, oldFileName, totalsName}

// Rewrite replaces a damaged file by one with the content in memory. A damaged file of passes is
// written again together with the other one. The passes of damaged lines, which a start skips, are
// lost.
func (l *Log) Rewrite(name string) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if name != totalsName {
		return l.file.replace(l.ended())
	}
	l.totalsFile.stale = true // so the file is replaced
	l.writeTotals(nil)
	if l.totalsFile.stale {
		return errNotWritten
	}
	return nil
}

// errNotWritten is the error of Rewrite after a failure that is already logged.
var errNotWritten = errors.New("write the totals of the cleaner: the write has failed")

// ended returns the passes that have ended, with their steps, oldest first.
func (l *Log) ended() (passes []report.PartitionPass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.mu.passes {
		if e.recorder == nil {
			pass := e.pass
			pass.Steps, pass.StepCount = e.steps, len(e.steps)
			passes = append(passes, pass)
		}
	}
	return passes
}

// Filter selects passes.
type Filter struct {
	Topics    []string // empty for all
	Partition int32    // -1 for all
	ID        int64    // 0 for all
	Before    int64    // 0 for all; otherwise only passes with lower ids
	Running   bool     // true for running passes only
	Limit     int
	Steps     bool // true to include the steps
}

func (f *Filter) selects(p *report.PartitionPass) bool {
	return (len(f.Topics) == 0 || slices.Contains(f.Topics, p.Topic)) &&
		(f.Partition < 0 || p.Partition == f.Partition) && (f.ID == 0 || p.ID == f.ID) &&
		(f.Before == 0 || p.ID < f.Before) && (!f.Running || p.Ended == nil)
}

// List returns up to Limit passes, newest first, and whether there are more. The totals of a
// running pass are not filled in.
func (l *Log) List(f Filter) (passes []report.PartitionPass, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.mu.passes) {
		if !f.selects(&e.pass) {
			continue
		}
		if len(passes) == f.Limit {
			return passes, true
		}
		pass, steps := e.pass, e.steps
		if e.recorder != nil {
			// Clone the steps, because the recorder removes steps in place.
			steps, pass.OmittedSteps = slices.Clone(e.recorder.steps), e.recorder.omitted
		}
		pass.StepCount = len(steps)
		if f.Steps {
			pass.Steps = steps
		}
		passes = append(passes, pass)
	}
	return passes, false
}
