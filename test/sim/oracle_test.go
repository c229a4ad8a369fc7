package sim

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// fact is a record as it lies in a log.
type fact struct {
	offset   int64
	epoch    int32
	key      string
	value    string
	deleted  bool
	producer int64 // -1: none
	sequence int32
	// timestamp is the producer's, in ms.
	timestamp int64
	control   bool // the end of a transaction
}

// truth is what is known for sure of a partition.
type truth struct {
	*topic
	settled   map[int64]fact       // below some high watermark once: never to change
	written   map[[2]int64]fact    // by offset and epoch: what some log holds there
	sequences map[[2]int64]int64   // of a producer: where its record is
	appended  map[[2]int64]bool    // of a producer's records: some log had it once
	starts    map[int32]int64      // the lowest settled offset of each leader epoch
	leaders   map[int32][2]int64   // of each leader epoch: broker and incarnation
	told      map[int32]ends       // what clients were told in each leader epoch
	seen      map[*life]*seenUntil // how far each log was looked at
	// acknowledged records were lost with all that had them; what holds begins with this epoch
	excused   int32
	tainted   bool  // that happened
	deletedTo int64 // clients have asked to delete what lies below
	expiredTo int64 // retention has taken what lies below, somewhere
	goneTo    gone  // clients were told that what lies below is deleted
	// transactions are those of a transaction's records, by producer and sequence.
	transactions map[[2]int64]*transaction
	open         bool // the end of one may never be written
	count        tally
}

// ends are the high watermark and the last stable offset of a leader.
type ends struct{ end, stable int64 }

// seenUntil is how far a log is known to be what it should.
type seenUntil struct {
	log *logstore.Log
	to  int64
}

// tally is what a run has reached: a simulation in which nothing happens proves nothing.
type tally struct {
	acknowledged, elections, unproven, excused, reads, duplicates, cleaned int
	deleted, gone, expired, fromFollowers, again                           int
	added, drained, lost                                                   int // brokers
	// transactions, and records of them
	committed, aborted, readCommitted int
	wired                             int // runs
	// of keys that were checked, and of which too long to check
	histories, givenUp int
}

func (t *tally) add(o tally) {
	t.acknowledged += o.acknowledged
	t.elections += o.elections
	t.unproven += o.unproven
	t.excused += o.excused
	t.reads += o.reads
	t.duplicates += o.duplicates
	t.histories += o.histories
	t.givenUp += o.givenUp
	t.cleaned += o.cleaned
	t.deleted += o.deleted
	t.gone += o.gone
	t.again += o.again
	t.added += o.added
	t.drained += o.drained
	t.lost += o.lost
	t.wired += o.wired
	t.committed += o.committed
	t.aborted += o.aborted
	t.readCommitted += o.readCommitted
	t.expired += o.expired
	t.fromFollowers += o.fromFollowers
}

// reaches tells whether so many runs have reached what the simulation is for.
func (t *tally) reaches(runs int) bool {
	for _, count := range []int{
		t.unproven, t.duplicates, t.cleaned, t.deleted, t.gone, t.expired, t.fromFollowers, t.again,
		t.added, t.drained, t.lost, t.committed, t.aborted,
		t.readCommitted, t.wired,
	} {
		if count == 0 {
			return false
		}
	}
	return t.acknowledged >= 50*runs && t.elections >= 5*runs
}

// oracle knows what must hold.
type oracle struct {
	w  *world
	mu struct {
		sync.Mutex
		truths []*truth
	}
}

func newOracle(w *world) *oracle { return &oracle{w: w} }

func (o *oracle) add(t *topic) {
	fresh := &truth{topic: t, leaders: map[int32][2]int64{}, appended: map[[2]int64]bool{},
		transactions: map[[2]int64]*transaction{}}
	fresh.forget(0)
	o.mu.truths = append(o.mu.truths, fresh)
}

func (o *oracle) of(name string) *truth {
	return o.mu.truths[slices.IndexFunc(o.mu.truths, func(t *truth) bool { return t.name == name })]
}

func (o *oracle) tally() (sum tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.mu.truths {
		sum.add(t.count)
	}
	return sum
}

// forget drops what was settled at from and above, and in a compacted topic what that superseded:
// it may have been cleaned away for it.
func (t *truth) forget(from int64) {
	lost := map[string]bool{}
	for offset, f := range t.settled {
		lost[f.key] = lost[f.key] || t.settings.Compact && offset >= from
	}
	for offset, f := range t.settled {
		if offset >= from || lost[f.key] {
			delete(t.settled, offset)
		}
	}
	if t.settled == nil {
		t.settled = map[int64]fact{}
	}
	t.written, t.sequences, t.starts = map[[2]int64]fact{}, map[[2]int64]int64{}, map[int32]int64{}
	t.told, t.seen = map[int32]ends{}, map[*life]*seenUntil{}
}

// elected looks at a decision of the operator.
func (w *world) elected(t *topic, before, next placement.Partition, unproven bool) {
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	truth := o.of(t.name)
	if next.Leader == placement.NoLeader {
		return
	}
	at := slices.IndexFunc(next.ISR,
		func(m placement.InSyncReplica) bool { return m.Broker == next.Leader })
	if at < 0 {
		w.fail("%s: the leader %d is not in the ISR %v", t.name, next.Leader, next.ISR)
		return
	}
	leader := [2]int64{int64(next.Leader), next.ISR[at].Epoch}
	if had, ok := truth.leaders[next.LeaderEpoch]; ok && had != leader {
		w.fail("%s: leader epoch %d was given to %v and to %v", t.name, next.LeaderEpoch, had,
			leader)
	} else if !ok {
		truth.count.elections++
	}
	truth.leaders[next.LeaderEpoch] = leader
	if unproven {
		truth.count.unproven++
		o.unproven(truth, before, next)
	}
}

// unproven looks at an election of which nobody can say that it loses nothing: what it lost is
// excused, if the new leader's disk has.
func (o *oracle) unproven(t *truth, before, next placement.Partition) {
	elected := o.w.brokers[next.Leader]
	var own *placement.InSyncReplica
	for _, m := range before.ISR {
		if m.Broker == next.Leader {
			own = &m
			continue
		}
		if l := o.w.brokers[m.Broker].life.Load(); l != nil && l.epoch.Load() == m.Epoch &&
			!o.w.meta.mu.lossy && !t.settings.UncleanElection {
			o.w.fail(
				"%s: broker %d was elected without proof, and broker %d, in sync, lives in incarnation %d",
				t.name,
				next.Leader,
				m.Broker,
				m.Epoch,
			)
		}
	}
	from := int64(0)
	if own != nil {
		if !elected.lostSince(own.Epoch, t.settings.Fsync) {
			return // the system cannot know it, but everything is there
		}
		if l := elected.life.Load(); l != nil {
			if log := l.store.Log(t.partitionID()); log != nil {
				from = log.LogEnd()
			}
		}
	}
	o.w.note("%s: what is at %d and above may be lost", t.name, from)
	t.excused, t.tainted = next.LeaderEpoch, true
	t.count.excused++
	t.forget(from)
}

func (t *topic) partitionID() replica.PartitionID { return replica.PartitionID{Topic: t.name} }

// settle takes in a record below a high watermark.
func (o *oracle) settle(t *truth, f fact, by int32, how string) {
	had, ok := t.settled[f.offset]
	if ok && had != f {
		o.w.fail("%s: at offset %d broker %d %s %+v; it was %+v", t.name, f.offset, by, how, f, had)
		return
	}
	if ok {
		return
	}
	t.settled[f.offset] = f
	if start, ok := t.starts[f.epoch]; !ok || f.offset < start {
		t.starts[f.epoch] = f.offset
	}
	if f.sequence < 0 {
		return
	}
	at := [2]int64{f.producer, int64(f.sequence)}
	if offset, ok := t.sequences[at]; ok && offset != f.offset &&
		offset >= max(t.deletedTo, t.expiredTo) {
		o.w.fail("%s: record %d of producer %d is at offset %d and at %d", t.name, f.sequence,
			f.producer, offset, f.offset)
	}
	t.sequences[at] = f.offset
}

// acknowledged is told of a batch when its leader acknowledges it to all in sync, before the answer
// travels.
func (o *oracle) acknowledged(l *life, name string, facts []fact, duplicate bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	log := l.store.Log(t.partitionID())
	if log == nil || l.dead.Load() {
		return
	}
	for _, f := range facts {
		if f.epoch = log.EpochAt(f.offset); f.epoch < t.excused || f.offset < log.LogStart() {
			return
		}
		for epoch, start := range t.starts {
			if epoch > f.epoch && start <= f.offset {
				o.w.fail("%s: broker %d acknowledges offset %d in epoch %d; epoch %d began at %d",
					t.name, l.id, f.offset, f.epoch, epoch, start)
			}
		}
		o.settle(t, f, l.id, "acknowledges")
		t.count.acknowledged++
		if duplicate {
			t.count.duplicates++
		}
	}
}

// consumed is told what a consumer was given.
func (o *oracle) consumed(l *life, name string, facts []fact) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if log := l.store.Log(t.partitionID()); log == nil || log.LeaderEpoch() < t.excused {
		return
	}
	for _, f := range facts {
		o.settle(t, f, l.id, "gives a consumer")
	}
	t.count.reads += len(facts)
	if _, err := l.set.Leader(t.partitionID(), -1); err != nil {
		t.count.fromFollowers += len(facts)
	}
}

func (o *oracle) tainted(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).tainted
}

// forgotten tells whether a broker may refuse a batch whose first record this is as out of order:
// records were lost, or it is in a log that was cleaned, or whose beginning is gone, and a replica
// made from one knows only the last batch of the producer, or those that are left.
func (o *oracle) forgotten(name string, f *fact) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	at := [2]int64{f.producer, int64(f.sequence)}
	offset, settled := t.sequences[at]
	return t.tainted || t.settings.Compact && t.appended[at] || settled &&
		offset < max(t.deletedTo, t.expiredTo)
}

// factsOf are the records of whole batches; next and epoch are of the last batch, which may be
// empty: 0 and -1 without any.
func factsOf(batches []byte) (facts []fact, next int64, epoch int32, err error) {
	epoch = -1
	for len(batches) > 0 {
		first, rest, err := record.Next(batches)
		if err != nil {
			return facts, next, epoch, err
		}
		err = first.Records(1<<20, func(r *record.Record) error {
			f := fact{
				offset: r.Offset, epoch: first.LeaderEpoch(), key: string(r.Key),
				value: string(r.Value), deleted: r.Value == nil,
				producer: first.ProducerID(), sequence: -1, timestamp: r.Timestamp,
				control: first.Control(),
			}
			if f.producer >= 0 && !f.control {
				f.sequence = first.BaseSequence() + int32(r.Offset-first.BaseOffset())
			}
			facts = append(facts, f)
			return nil
		})
		if err != nil {
			return facts, next, epoch, err
		}
		next, epoch, batches = first.NextOffset(), first.LeaderEpoch(), rest
	}
	return facts, next, epoch, nil
}

// read reads what a log holds in [from, to), as a follower would.
func read(log *logstore.Log, from, to int64) (facts []fact, err error) {
	for from < to {
		slice, err := log.ReadReplica(from, 1<<20, true)
		if err != nil {
			return facts, err
		}
		if slice.Length == 0 {
			slice.Release()
			return facts, fmt.Errorf("a read at %d gives nothing", from)
		}
		buf := make([]byte, slice.Length)
		_, err = slice.File.ReadAt(buf, slice.Position)
		slice.Release()
		if err != nil {
			return facts, err
		}
		some, next, _, err := factsOf(buf)
		if err != nil {
			return facts, err
		}
		if next <= from {
			return facts, errors.New("a read does not get on")
		}
		for _, f := range some {
			if f.offset >= from && f.offset < to {
				facts = append(facts, f)
			}
		}
		from = next
	}
	return facts, nil
}
