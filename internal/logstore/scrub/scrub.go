package scrub

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/vfs"
)

// StateFile is the name of the file in the data directory that contains the State.
const StateFile = "scrub"

const (
	// saveInterval is the interval at which the state is written. A restart repeats at most the
	// checks of one interval.
	saveInterval = 10 * time.Second
	// listInterval is the maximum age of a list of targets. A target that was removed after the list
	// was created is skipped.
	listInterval = time.Minute
	// retryDelay is the delay after a check that failed for a reason other than damage.
	retryDelay = 10 * time.Second
	// failuresMax is the number of consecutive such failures after which the round skips the
	// target.
	failuresMax = 3
)

// Settings are the settings of the scrub, which may change while it runs.
type Settings struct {
	Interval  time.Duration // interval between the starts of two rounds; 0 if the scrub is off
	BytesRate int64         // maximum read rate in bytes per second
}

// Options configure a Scrubber. All fields except Files are required.
type Options struct {
	FS     vfs.FS
	Dir    string // data directory
	Logger *slog.Logger
	// Busy reports whether more urgent work needs the disk. The rate is then lower.
	Busy func() bool
	// Replace replaces the damaged records of a segment by those of another replica
	// (logstore.AtRest.ReplaceRecords). Run calls it when damage is found, and again in each later
	// check that finds it.
	Replace func(ctx context.Context, log *logstore.Log, damaged logstore.AtRest,
		places []inspect.Damage, pace repair.Pace) error
	// Cleaning reports whether a pass of the cleaner runs in a log. Meanwhile the log's files are
	// not repaired.
	Cleaning func(log *logstore.Log) bool
	// Files contains the files in the data directory that the store does not write, by name; may be
	// nil.
	Files map[string]File
	// Clean requests a pass over a log, because a .dead file was removed.
	Clean func(log *logstore.Log)
}

// File is a file in the data directory that the store does not write.
type File struct {
	// Check fails if the content is malformed or contradicts the state in memory; nil if package
	// inspect checks the file.
	Check func(content []byte) error
	// Rewrite replaces the file, which is damaged, by one with the state in memory. It fails with
	// logstore.ErrNotInMemory if the process does not have this state.
	Rewrite func() error
}

// Scrubber checks the files at rest of a store.
type Scrubber struct {
	store *logstore.Store
	opts  Options
	files pacedFS

	settings atomic.Pointer[Settings]
	changed  chan struct{} // signal of Configure; its buffer has 1 element
	checked  atomic.Int64  // bytes read
	repaired atomic.Int64  // files replaced
	anew     atomic.Bool   // true if the next step begins a round

	mu       sync.Mutex
	state    State
	found    int64    // number of targets in which this process has found damage
	targets  []Target // as last listed by Run; never modified
	suspects []Target // arguments of Recheck that Run has not taken yet

	// Only Run uses the following fields.
	listed     time.Time
	saved      time.Time
	saveFailed bool
	failures   int // number of consecutive failed checks of the next target
	// digests holds the digest of each small file, by path.
	digests map[string]digest
	settled time.Duration // the constant settled, except in tests
	recheck rechecks
}

// New returns a Scrubber that is off until Configure is called. It reads an earlier process's
// state. If this state cannot be used, it begins a new round.
func New(store *logstore.Store, opts Options) *Scrubber {
	s := &Scrubber{store: store, opts: opts, changed: make(chan struct{}, 1),
		digests: map[string]digest{}, settled: settled, recheck: rechecks{}}
	s.opts.Files = map[string]File{StateFile: {Rewrite: s.write,
		Check: func(content []byte) error {
			_, err := DecodeState(content)
			return err
		}}}
	maps.Copy(s.opts.Files, opts.Files)
	s.settings.Store(&unconfigured)
	content, err := opts.FS.ReadFile(filepath.Join(opts.Dir, StateFile))
	if err == nil {
		s.state, err = DecodeState(content)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		opts.Logger.Warn("failed to read the state of the scrub; it begins a new round", "error", err)
	}
	return s
}

// unconfigured contains the settings before the first call of Configure.
var unconfigured Settings

// Configure changes the settings. If the scrub was off, a round begins at once.
func (s *Scrubber) Configure(settings Settings) {
	before := s.settings.Swap(&settings)
	if before != &unconfigured && before.Interval == 0 && settings.Interval > 0 {
		s.anew.Store(true)
	}
	s.wake()
}

// wake makes Run check again what is due.
func (s *Scrubber) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Request requests an immediate check of a topic, or of everything if topic is empty. It returns
// the ticket of the request; see State.Requests. It fails with ErrOff if the scrub is off.
func (s *Scrubber) Request(topic string) (ticket int64, err error) {
	if s.settings.Load().Interval == 0 {
		return 0, ErrOff
	}
	s.update(func(state State) State {
		state, ticket = state.Requested(topic)
		return state
	})
	s.wake()
	return ticket, nil
}

// Annotate makes the request of the annotation heartwood.dev/scrub-now. Each value of the
// annotation causes one request, even across restarts. If the scrub is off, the request remains
// until the scrub is turned on.
func (s *Scrubber) Annotate(topic, value string) {
	s.update(func(state State) State { return state.Annotate(topic, value) })
	s.wake()
}

// State returns the current state.
func (s *Scrubber) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Run scrubs until ctx ends. It must be called once, and must return before the store is closed.
func (s *Scrubber) Run(ctx context.Context) {
	s.files = pacedFS{s.opts.FS, &pacer{ctx: ctx, busy: s.opts.Busy, checked: &s.checked,
		rate: func() int64 {
			if now := s.settings.Load(); now.Interval > 0 {
				return now.BytesRate
			}
			return 0
		}}}
	s.recheckKnown()
	for ctx.Err() == nil {
		s.takeSuspects()
		wait := listInterval // or until Configure
		switch t, due, _ := s.recheck.first(time.Now(), 0); {
		case s.settings.Load().Interval == 0:
		case due:
			wait = s.visitAgain(ctx, t)
		default:
			wait = s.advance(ctx, time.Now())
		}
		s.save(time.Now(), false)
		s.wait(ctx, wait)
	}
	s.save(time.Now(), true)
}

// wait waits for a duration, or until the settings change.
func (s *Scrubber) wait(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
	case <-ctx.Done():
	}
}

// advance checks the next target: a requested target if there is one, otherwise the next target of
// the round. It returns how long to wait before the next target.
func (s *Scrubber) advance(ctx context.Context, now time.Time) time.Duration {
	if s.listed.IsZero() || now.Sub(s.listed) >= listInterval || s.State().begins() {
		targets := s.list()
		s.mu.Lock()
		s.targets, s.listed = targets, now
		s.mu.Unlock()
	}
	var next Target
	requested := false
	s.update(func(state State) State {
		next, state, requested = state.NextRequested(s.targets, now)
		return state
	})
	if !requested {
		return s.step(ctx, now)
	}
	if wait := s.visit(ctx, next); wait > 0 {
		return wait
	}
	s.update(func(state State) State { return state.RequestPassed(next) })
	return 0
}

// step checks the next target of the round. It returns how long to wait before the next step.
func (s *Scrubber) step(ctx context.Context, now time.Time) time.Duration {
	anew := s.anew.Swap(false)
	var next Target
	var before, after State
	var due time.Time
	ok := false
	s.update(func(state State) State {
		if anew {
			state = state.Anew()
		}
		before = state
		next, after, due, ok = state.Next(s.targets, s.settings.Load().Interval, now)
		return after
	})
	if !ok {
		if after.Complete && !before.Complete {
			s.opts.Logger.Info("scrub completed", "began", after.Began, "damaged",
				len(after.Damaged))
			s.save(now, true)
		}
		_, _, wait := s.recheck.first(time.Now(), min(due.Sub(now), listInterval))
		return wait
	}
	read := s.checked.Load()
	if wait := s.visit(ctx, next); wait > 0 {
		return wait
	}
	read = s.checked.Load() - read
	s.update(func(state State) State { return state.Passed(next, read) })
	return 0
}

// visit checks a target and records the result. If the target could not be checked, it returns how
// long to wait, otherwise 0.
func (s *Scrubber) visit(ctx context.Context, t Target) time.Duration {
	places, err := s.check(t)
	if stopped(err) {
		return time.Millisecond // Run then evaluates why
	}
	if err != nil {
		s.opts.Logger.Warn("failed to check files at rest", "partition", t.id(), "segment", t.Base,
			"error", err)
		if s.failures++; s.failures < failuresMax {
			return retryDelay
		}
	}
	s.failures = 0
	if err != nil {
		return 0 // the next round tries again
	}
	if sealed, exists := s.sealed(t); exists && len(places) == 0 {
		sealed.MarkVerified()
	}
	_, known := s.State().damaged(t)
	s.update(func(state State) State { return state.Checked(t, places, time.Now()) })
	if len(places) == 0 {
		return 0
	}
	if !known {
		s.mu.Lock()
		s.found++
		s.mu.Unlock()
	}
	s.opts.Logger.Error("damage found at rest", "partition", t.id(), "segment", t.Base, "places",
		places)
	s.save(time.Now(), true)
	switch log := s.store.Log(t.id()); {
	case t.Retained != "":
	case t.Base < 0:
		s.rewrite(log, t, places)
	case log == nil:
	case ofRecords(places):
		s.replace(ctx, log, t, places)
	default:
		s.repair(ctx, log, t, places)
	}
	return 0
}

// update changes the state. change must not call methods of s that lock s.mu.
func (s *Scrubber) update(change func(State) State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = change(s.state)
}

// list returns all targets in the order of a round.
func (s *Scrubber) list() []Target {
	targets := []Target{dataDirectory}
	for _, log := range s.store.Logs() {
		id := log.ID()
		targets = append(targets, Target{Topic: id.Topic, Partition: id.Index, Base: -1})
		for _, sealed := range log.AtRest() {
			targets = append(targets, Target{Topic: id.Topic, Partition: id.Index,
				Base: sealed.Base})
		}
	}
	targets = append(targets, s.retainedTargets()...)
	slices.SortFunc(targets, Target.compare)
	return targets
}

// save writes the state if saveInterval has passed since the last write, or if always is set. It
// logs a failure once: the state only saves work after a restart.
func (s *Scrubber) save(now time.Time, always bool) {
	if !always && now.Sub(s.saved) < saveInterval || s.State().Began.IsZero() {
		return
	}
	s.saved = now
	err := s.write()
	if err != nil && !s.saveFailed {
		s.opts.Logger.Warn("failed to write the state of the scrub", "error", err)
	}
	s.saveFailed = err != nil
}

// write writes the state.
func (s *Scrubber) write() error {
	content, err := s.State().Encode()
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.opts.Dir, StateFile), content)
}
