package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// workload applies operations to a store with a few partitions, and updates the model of each
// partition. At random moments it records a crash: it clones the disk and the models. A failed
// check panics with a crashFailure, which run returns as an error.
type workload struct {
	disk  *crashDisk
	fault *vfs.Fault // wraps disk
	// fullFor is the number of further acts for which the disk stays full.
	fullFor int
	// indexEntries is Options.indexEntriesMax. With 0, the segments are too small to write index
	// entries before they are sealed.
	indexEntries int
	random       *rand.Rand // choices of the current operation
	store        *Store
	models       []*partitionModel

	chance  *rand.Rand // choice of the moments at which a crash is simulated
	oneIn   int        // a crash is simulated at one of oneIn moments, on average
	crashes []crashPoint
	moments int
	trace   []string  // acts so far, for the failure report
	seen    io.Writer // one line per moment

	mu sync.Mutex // guards chance, crashes and moments, because logs are opened concurrently
}

// crashPoint is the disk after a crash, with the models that describe what the disk must contain
// and may contain.
type crashPoint struct {
	mem    *vfs.Mem
	models []*partitionModel
	name   string
}

// crashFailure is the value that a check panics with.
type crashFailure struct{ text string }

func (w *workload) failf(format string, args ...any) {
	panic(crashFailure{fmt.Sprintf(format, args...)})
}

func (w *workload) must(err error, what string) {
	if err != nil {
		w.failf("%s: %v", what, err)
	}
}

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// operation is one kind of operation of a workload. weight is its relative frequency.
type operation struct {
	name   string
	weight int
	run    func(w *workload, p *partitionModel, log *Log)
	when   presence // required presence of the partition
}

// operations lists all operations of the crash test. Add every new durable operation here.
var operations = []operation{
	{"append", 60, (*workload).append, present},
	{"append again", 4, (*workload).appendAgain, present},
	{"flush", 6, (*workload).flush, present},
	{"roll", 3, (*workload).roll, present},
	{"lead", 6, (*workload).lead, present},
	{"save epochs", 3, (*workload).saveEpochs, present},
	{"configure", 2, (*workload).configure, present},
	{"clean", 12, (*workload).clean, present},
	{"keys", 10, (*workload).keys, present},
	{"tick", 10, func(w *workload, _ *partitionModel, _ *Log) { w.tick(false) }, present},
	{"idle", 6, (*workload).idle, present},
	{"retention", 5, func(w *workload, _ *partitionModel, _ *Log) { w.tick(true) }, present},
	{"restart", 2, func(w *workload, _ *partitionModel, _ *Log) { w.restart() }, present},
	{"release", 4, (*workload).release, present},
	{"create", 60, func(w *workload, p *partitionModel, _ *Log) { w.create(p) }, absent},
	{"delete before", 3, (*workload).deleteBefore, present},
	{"replicate", 8, (*workload).replicate, present},
	{"transact", 20, (*workload).transact, present},
	{"end transaction", 14, (*workload).endTransaction, present},
	{"truncate", 5, (*workload).truncate, present},
	{"start at", 1, (*workload).startAt, present},
	{"full disk", 2, (*workload).fill, present},
	{"take up", 60, func(w *workload, p *partitionModel, _ *Log) { w.create(p) }, releasedRetained},
}

// act is one operation of a plan. It has a separate seed, so its choices stay the same when other
// acts of the plan are removed.
type act struct {
	partition int
	seed      uint64
}

// do selects an operation that the partition's state allows, and runs it.
func (w *workload) do(a act) {
	time.Sleep(time.Second) // advances the clock of the bubble
	w.random = rand.New(rand.NewPCG(a.seed, 1))
	if w.fullFor > 0 {
		if w.fullFor--; w.fullFor == 0 {
			w.freeSpace()
		}
	}
	p := w.models[a.partition%len(w.models)]
	sum := 0
	for _, o := range operations {
		if o.when == p.where {
			sum += o.weight
		}
	}
	n := w.random.IntN(sum)
	for _, o := range operations {
		if o.when != p.where {
			continue
		}
		if n -= o.weight; n < 0 {
			w.remember(o.name + " " + p.id.String())
			w.disk.acting.Lock()
			o.run(w, p, w.store.Log(p.id))
			w.disk.acting.Unlock()
			w.note("")
			break
		}
	}
	synctest.Wait() // wait until released directories are deleted
	w.moment("idle", "")
}

// moment is called whenever a power failure could leave a new state. In some of these calls it
// simulates a crash: it clones the models, and the disk as a power failure would leave it.
func (w *workload) moment(what, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moments++
	_, _ = fmt.Fprintln(w.seen, what, name, len(w.trace)) // a hash never fails
	if w.chance.IntN(w.oneIn) != 0 {
		return
	}
	head := fmt.Sprintf("%s %s (moment %d, act %d)", what, name, w.moments, len(w.trace))
	point := crashPoint{mem: crashed(w.disk.mem, w.chance), name: head}
	for _, p := range w.models {
		point.models = append(point.models, p.clone())
	}
	w.crashes = append(w.crashes, point)
}

// open opens the store on the workload's disk.
func (w *workload) open() {
	store, err := Open(Options{FS: w.fault, Dir: dataDir, Logger: w.logger(),
		FlushInterval: 1000 * time.Hour, Workers: 1, indexEntriesMax: w.indexEntries})
	w.must(err, "open")
	w.store = store
	synctest.Wait() // wait until the directories that an earlier run released are deleted
}

var crashKeys = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}

func (w *workload) append(p *partitionModel, log *Log) {
	for range 1 + w.random.IntN(12) {
		w.appendOne(p, log)
	}
	if w.random.IntN(4) > 0 {
		p.highWatermarkMax = p.end()
		log.AdvanceHighWatermark(p.end())
	}
}

// appendOne appends a batch of a few records at the log end. If the log has lost the last batch of
// the producer (partitionModel.outdated), it may reject the batch. The workload then does what a
// client does (KIP-360): it increments the producer epoch and starts at sequence 0.
func (w *workload) appendOne(p *partitionModel, log *Log) {
	a := w.data(p)
	before, ok := p.latest(p.end())[a.sent.Producer]
	err := w.tryPut(p, log, a)
	if errors.Is(err, ErrOutOfOrderSequence) && ok && before.base < p.outdated {
		err = w.tryPut(p, log, a.inNextEpoch())
	}
	w.done(err, "append")
}

// data returns a random batch for the log end. Most batches come from an idempotent producer, which
// sometimes begins a new epoch.
func (w *workload) data(p *partitionModel) appended {
	s := storetest.Batch{Timestamp: time.Now(),
		Value: fmt.Sprintf("%d-%0*d", p.end(), 1+w.random.IntN(120), w.random.IntN(1000))}
	for range 1 + w.random.IntN(5) {
		s.Keys = append(s.Keys, crashKeys[w.random.IntN(len(crashKeys))])
	}
	a := appended{base: p.end(), epoch: p.leaderEpoch(p.end()), sent: s,
		nulls: w.random.IntN(12) == 0}
	if producer := int64(w.random.IntN(4)); producer > 0 && !a.nulls {
		a.sent.Producer = producer
		if before, ok := p.latest(p.end())[producer]; ok {
			a.sent.Epoch = before.sent.Epoch
			a.sent.Sequence = before.sent.Sequence + int32(len(before.sent.Keys))
			if w.random.IntN(20) == 0 {
				a.sent.Epoch, a.sent.Sequence = a.sent.Epoch+1, 0
			}
		}
	}
	a.wire = a.sent.Bytes(failTB{})
	if a.nulls {
		a.wire = a.sent.Tombstones(failTB{})
	}
	return a
}

// put appends a batch at the end of the log.
func (w *workload) put(p *partitionModel, log *Log, a appended) {
	w.done(w.tryPut(p, log, a), "append")
}

// tryPut is like put, but returns the error if the log rejects the batch.
func (w *workload) tryPut(p *partitionModel, log *Log, a appended) error {
	p.batches = append(p.batches, a)
	got, err := log.AppendVerified(append([]byte{}, a.wire...),
		Verified{Transaction: a.sent.Transactional}, time.Now())
	if err != nil {
		p.batches = slices.Clip(p.batches[:len(p.batches)-1])
		return err
	}
	if got.BaseOffset != a.base || got.LastOffset != a.last() || got.Duplicate {
		w.failf("append at %d returned %+v", a.base, got)
	}
	w.acknowledge(p, log)
	return nil
}

// acknowledge waits for the sync that durability Fsync requires, and updates the model: the synced
// records must survive a crash.
func (w *workload) acknowledge(p *partitionModel, log *Log) {
	if !log.Settings().Fsync {
		return
	}
	synctest.Wait()
	if end := log.DurableEnd(); w.fullFor == 0 && end < p.dataEnd() {
		w.failf("durable end of %s is %d, of %d", p.id, end, p.dataEnd())
	}
	p.synced = max(p.synced, min(log.DurableEnd(), p.dataEnd()))
}

// appendAgain appends each producer's last batch again, and checks that the log recognizes the
// duplicates.
func (w *workload) appendAgain(p *partitionModel, log *Log) { w.wantDuplicates(p, log) }

func (w *workload) wantDuplicates(p *partitionModel, log *Log) {
	for _, b := range p.latest(p.end()) {
		if b.base >= p.forgotten {
			w.wantDuplicate(log, b)
		}
	}
}

func (w *workload) wantDuplicate(log *Log, b appended) {
	verified := Verified{Transaction: b.sent.Transactional}
	got, err := log.AppendVerified(append([]byte{}, b.wire...), verified, time.Now())
	if err != nil || !got.Duplicate || got.BaseOffset != b.base {
		w.failf("%s: repeated last batch of producer %d, at offset %d: got %+v, %v", log.ID(),
			b.sent.Producer, b.base, got, err)
	}
	gap := b.sent
	gap.Sequence += int32(len(gap.Keys)) + 7
	if _, err := log.AppendVerified(gap.Bytes(failTB{}), verified, time.Now()); !errors.Is(err,
		ErrOutOfOrderSequence) {
		w.failf("%s: a gap in the sequence of producer %d: %v", log.ID(), b.sent.Producer, err)
	}
}

func (w *workload) flush(p *partitionModel, log *Log) {
	if w.done(log.disk.Flush(), "flush") {
		p.synced = p.dataEnd()
	}
}

func (w *workload) roll(_ *partitionModel, log *Log) {
	log.mu.Lock()
	defer log.mu.Unlock()
	if handles := log.list.Handles(); handles[len(handles)-1].SizeBytes() > 0 {
		w.done(log.rollLocked(), "roll")
	}
}

func (w *workload) lead(p *partitionModel, log *Log) {
	e := leaderepoch.Entry{
		Epoch: p.leaderEpoch(p.end()) + 1 + int32(w.random.IntN(2)), Start: p.end()}
	p.epochs, p.epochsChanging = append(p.epochs, e), true
	if !w.done(log.Lead(e.Epoch), "lead") {
		p.epochs = slices.Clip(p.epochs[:len(p.epochs)-1])
	}
	p.epochsChanging = false
}

// saveEpochs does what the store's goroutine does some time after the start of a leader epoch.
func (w *workload) saveEpochs(p *partitionModel, log *Log) {
	if w.done(log.epochs.SaveDue(), "save epochs") {
		p.epochsSaved, p.wasFull = max(p.epochsSaved, log.LeaderEpoch()), w.fullFor > 0
	}
}

func (w *workload) configure(p *partitionModel, log *Log) {
	p.settings.SegmentBytes = int64(1000 + w.random.IntN(1500))
	retain := w.random.IntN(2) == 0
	p.settings.Fsync = w.random.IntN(3) == 0
	log.Configure(p.settings, p.retain)
	// Wait for the sync that durability Fsync causes. Otherwise this sync could run before or after
	// the sync of the reclaim policy, and the run would not be repeatable.
	synctest.Wait()
	p.retain = retain
	log.Configure(p.settings, p.retain)
	w.acknowledge(p, log)
}

// clean runs one pass over the log, as a worker of the cleaner does.
func (w *workload) clean(p *partitionModel, log *Log) {
	if !p.settings.Compact {
		return
	}
	// The bound is the recovery point and not durability.Disk.SealedEnd: resetting the first dirty
	// offset also saves the recovery point, which then applies at once.
	p.cleanable = max(p.cleanable, min(log.checkpointState().RecoveryPoint, log.LastStable()))
	p.replicatedTo = max(p.replicatedTo, log.HighWatermark())
	_, err := compact(context.Background(), log)
	w.done(err, "clean")
	if dirty := log.compaction.Progress.FirstDirty(); dirty > p.end() {
		w.failf("first dirty offset of %s is %d, beyond the log end %d", p.id, dirty, p.end())
	}
}

// tick does what the store's goroutine does every second, or if retention is set, every minute.
func (w *workload) tick(retention bool) {
	forgotten := map[*partitionModel]int64{}
	for _, p := range w.models {
		p.startMax, forgotten[p] = max(p.startMax, p.highWatermarkMax), p.forgotten
		if retention {
			p.replicatedTo = max(p.replicatedTo, p.highWatermarkMax)
		}
		if w.fullFor > 0 {
			p.forgotten = max(p.forgotten, p.startMax)
		}
	}
	w.store.tick(time.Now(), retention)
	for _, p := range w.models {
		if log := w.store.Log(p.id); log != nil {
			p.forgotten = min(p.forgotten, max(forgotten[p], log.LogStart()))
			if err := log.Fault(); err != nil {
				w.failf("%s stopped: %v", p.id, err)
			}
			w.settle(p, log)
		}
	}
}

// idle does what the store's goroutine does when the logs are idle for a while: it closes all
// files.
func (w *workload) idle(_ *partitionModel, _ *Log) {
	for range 3 { // sync the indexes, clear the marks of recent use, close the files
		for r, done := (idleRound{}), false; !done; {
			done = w.store.closeIdleFiles(&r, time.Now())
		}
	}
	for _, p := range w.models {
		if log := w.store.Log(p.id); log != nil && log.Fault() != nil {
			w.failf("%s stopped: %v", p.id, log.Fault())
		}
	}
}

// settle updates the model after a flush and a write of the checkpoints: the records and the
// offsets are durable. On a full disk they only may be durable.
func (w *workload) settle(p *partitionModel, log *Log) {
	if w.fullFor > 0 {
		p.startMax = max(p.startMax, log.LogStart())
		return
	}
	p.synced = p.dataEnd()
	p.start, p.startMax = log.LogStart(), log.LogStart()
	p.highWatermark, p.highWatermarkMax = log.HighWatermark(), log.HighWatermark()
}

func (w *workload) restart() {
	closed := w.done(w.store.Close(), "close")
	for _, p := range w.models {
		if log := w.store.Log(p.id); log != nil {
			w.settle(p, log)
			if closed {
				p.epochsSaved, p.wasFull = max(p.epochsSaved, log.LeaderEpoch()), w.fullFor > 0
			}
		}
	}
	w.freeSpace()
	w.open()
	w.checkAll()
}

func (w *workload) release(p *partitionModel, _ *Log) {
	retain := w.random.IntN(3) > 0
	p.next = absent
	if retain {
		p.next = releasedRetained
	}
	log := w.store.Log(p.id)
	w.freeSpace()
	w.must(w.store.Release(p.id, retain), "release")
	p.where = p.next
	w.settle(p, log)
	if w.store.Log(p.id) != nil {
		w.failf("%s exists after its release", p.id)
	}
}

// create creates a partition, or reopens a retained partition. It uses another topic id each time.
func (w *workload) create(p *partitionModel) {
	w.freeSpace()
	p.topic[0]++
	p.next = present
	if p.where == absent {
		*p = partitionModel{id: p.id, topic: p.topic, next: present, restart: none}
		p.settings = randomPolicy(w.random)
		p.retain = w.random.IntN(2) == 0
	}
	log, err := w.store.Create(p.id, p.topic, p.settings, p.retain)
	w.must(err, "create")
	p.where = present
	w.checkLog(p, log)
	w.adopt(p, log)
}

// randomPolicy returns settings with small segments, and with compaction, retention or both.
func randomPolicy(random *rand.Rand) topicconfig.Settings {
	return settings(func(s *topicconfig.Settings) {
		s.SegmentBytes = int64(1000 + random.IntN(1500))
		s.KeepCodec, s.Fsync = true, random.IntN(3) == 0
		kind := random.IntN(4)
		s.Compact, s.Delete = kind > 0, kind < 2
		if s.Delete {
			s.RetentionBytes = 3000
		}
		s.MinDirtyPercent, s.TombstoneRetention = 0, time.Duration(random.IntN(20))*time.Second
	})
}
