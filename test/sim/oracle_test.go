package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// logRecord is a record in a log.
type logRecord struct {
	offset   int64
	epoch    int32
	key      string
	value    string
	deleted  bool
	producer int64 // -1: not idempotent
	sequence int32
	// timestamp is the time that the producer has set, in ms.
	timestamp int64
	control   bool // true for a transaction marker
}

// partitionModel contains the observations of a partition. Later observations must not contradict
// them.
type partitionModel struct {
	*topic
	// committed maps an offset to the record at this offset that was below a high watermark. This
	// record must not change.
	committed map[int64]logRecord
	// written maps an offset and a leader epoch to the record that a log contained there.
	written   map[[2]int64]logRecord
	sequences map[[2]int64]int64 // producer and sequence number -> offset
	appended  map[[2]int64]bool  // producer and sequence number of each record that any log contained
	starts    map[int32]int64    // lowest committed offset of each leader epoch
	leaders   map[int32][2]int64 // leader epoch -> broker and broker epoch
	// reported maps a leader epoch to the highest offsets that clients received in this epoch.
	reported map[int32]ends
	verified map[*liveBroker]*verifiedUpTo // the verified part of each broker's log
	// lossEpoch is the leader epoch of the last election with an accepted loss of acknowledged
	// records. Logs that contain neither this epoch nor a later one are not checked.
	lossEpoch   int32
	lostRecords bool   // true after an election with an accepted loss
	losses      []loss // the losses of these elections
	// survivors maps an offset to the committed record that remains there after a loss, although
	// the cleaner may have removed it.
	survivors       map[int64]logRecord
	observed        map[*liveBroker][]observation
	deletedTo       int64    // offset below which clients have requested the deletion of all records
	expiredTo       int64    // offset below which retention has deleted all records on some broker
	confirmedDelete deletion // deletion whose confirmation clients have received
	// transactions maps the producer and sequence number of a transactional record to its transaction.
	transactions map[[2]int64]*transaction
	open         bool // true if a transaction may stay open, because its marker may never be written
	count        tally
}

// ends contains a leader's high watermark and last stable offset.
type ends struct{ end, stable int64 }

// verifiedUpTo is the position up to which a log was verified.
type verifiedUpTo struct {
	log *logstore.Log
	to  int64
}

// tally contains the number of events of each kind in all runs. It is needed because a simulation
// in which nothing happens proves nothing.
type tally struct {
	acknowledged, elections, unclean, losses, reads, duplicates, cleaned int
	deleted, deletesConfirmed, expired, fromFollowers, repeated          int
	// discarded is the number of discarded logs of replicas.
	discarded int
	// Numbers of brokers that were added, drained, or lost permanently.
	added, drained, lost int
	damaged              int // number of damaged logs
	sharedCuts           int // number of power cuts of all brokers
	diskErrors           int // number of times that a disk returned errors for a while
	flips                int // number of flipped bits
	// Numbers of committed and aborted transactions, and of records that read_committed consumers have
	// read.
	committed, aborted, readCommitted int
	overWire                          int // number of runs with profile.overWire
	withParent, parentEnds            int // numbers of runs with a parent process, and of its ends
	// Numbers for PartitionSets: writes, conflicts, writes that arrived after their sender had
	// abandoned them, and watches that had to list all sets because the history was compacted.
	writes, conflicts, late, relists int
	// histories is the number of histories of keys. unchecked is the number of histories whose check
	// was stopped because it took too long.
	histories, unchecked int
}

func (t *tally) add(o tally) {
	t.acknowledged += o.acknowledged
	t.elections += o.elections
	t.unclean += o.unclean
	t.losses += o.losses
	t.reads += o.reads
	t.duplicates += o.duplicates
	t.histories += o.histories
	t.unchecked += o.unchecked
	t.cleaned += o.cleaned
	t.deleted += o.deleted
	t.deletesConfirmed += o.deletesConfirmed
	t.repeated += o.repeated
	t.discarded += o.discarded
	t.added += o.added
	t.drained += o.drained
	t.lost += o.lost
	t.damaged += o.damaged
	t.sharedCuts += o.sharedCuts
	t.diskErrors += o.diskErrors
	t.flips += o.flips
	t.overWire += o.overWire
	t.withParent += o.withParent
	t.parentEnds += o.parentEnds
	t.committed += o.committed
	t.aborted += o.aborted
	t.readCommitted += o.readCommitted
	t.expired += o.expired
	t.fromFollowers += o.fromFollowers
	t.writes += o.writes
	t.conflicts += o.conflicts
	t.late += o.late
	t.relists += o.relists
}

// reaches reports whether the given number of runs has exercised everything that the simulation
// must exercise.
func (t *tally) reaches(runs int) bool {
	counts := []int{
		t.unclean, t.duplicates, t.cleaned, t.deleted, t.deletesConfirmed, t.expired,
		t.fromFollowers, t.repeated, t.discarded,
		t.added, t.drained, t.lost, t.damaged, t.sharedCuts, t.diskErrors, t.flips,
		t.committed, t.aborted,
		t.readCommitted, t.overWire, t.withParent, t.parentEnds, t.late,
	}
	if t.withParent < runs {
		counts = append(counts, t.conflicts, t.relists)
	}
	if slices.Contains(counts, 0) {
		return false
	}
	return t.acknowledged >= 50*runs && t.elections >= 5*runs
}

// oracle checks the invariants.
type oracle struct {
	w  *world
	mu struct {
		sync.Mutex
		models []*partitionModel
	}
}

func newOracle(w *world) *oracle { return &oracle{w: w} }

func (o *oracle) add(t *topic) {
	model := &partitionModel{topic: t, leaders: map[int32][2]int64{}, appended: map[[2]int64]bool{},
		sequences: map[[2]int64]int64{}, starts: map[int32]int64{},
		transactions: map[[2]int64]*transaction{}, committed: map[int64]logRecord{},
		observed: map[*liveBroker][]observation{}}
	model.forget(0)
	o.mu.models = append(o.mu.models, model)
}

func (o *oracle) of(name string) *partitionModel {
	return o.mu.models[slices.IndexFunc(o.mu.models,
		func(t *partitionModel) bool { return t.name == name })]
}

func (o *oracle) tally() (sum tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.mu.models {
		sum.add(t.count)
	}
	return sum
}

// forget removes the committed records at or above an offset. In a compacted topic, it also removes
// all earlier records of their keys, because the cleaner may have removed these as superseded. They
// become survivors: they need not exist, but no other record may have their offsets. A record that
// a log contained may have been committed for a moment between two checks.
func (t *partitionModel) forget(from int64) {
	lost := map[string]bool{}
	for offset, f := range t.committed {
		lost[f.key] = lost[f.key] || t.settings.Compact && offset >= from
	}
	for key, f := range t.written {
		lost[f.key] = lost[f.key] || t.settings.Compact && key[0] >= from
	}
	survivors := map[int64]logRecord{}
	for offset, f := range t.survivors {
		if offset < from {
			survivors[offset] = f
		}
	}
	for offset, f := range t.committed {
		if offset < from && lost[f.key] {
			survivors[offset] = f
		}
		if offset >= from || lost[f.key] {
			delete(t.committed, offset)
		}
	}
	isLost := func(_ [2]int64, offset int64) bool { return offset >= from }
	maps.DeleteFunc(t.sequences, isLost)
	maps.DeleteFunc(t.starts, func(_ int32, start int64) bool { return start >= from })
	t.survivors, t.written = survivors, map[[2]int64]logRecord{}
	t.reported, t.verified = map[int32]ends{}, map[*liveBroker]*verifiedUpTo{}
}

// elected verifies an election by the operator.
func (w *world) elected(t *topic, before, next placement.Partition, unclean bool) {
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	model := o.of(t.name)
	if next.Leader == placement.NoLeader {
		o.electedBefore(model, before, next)
		return
	}
	index := slices.IndexFunc(next.ISR,
		func(m placement.InSyncReplica) bool { return m.Broker == next.Leader })
	if index < 0 && next.LeaderEpoch == before.LeaderEpoch &&
		w.brokers[next.Leader].errors.hasOccurred() {
		return // its log has stopped, and the next decision elects another leader (ADR 0350)
	}
	if index < 0 {
		w.fail("%s: the leader %d is not in the ISR %v", t.name, next.Leader, next.ISR)
		return
	}
	leader := [2]int64{int64(next.Leader), next.ISR[index].Epoch}
	if had, ok := model.leaders[next.LeaderEpoch]; ok && had != leader {
		w.fail("%s: leader epoch %d was assigned to %v and to %v", t.name, next.LeaderEpoch, had,
			leader)
	} else if !ok {
		model.count.elections++
	}
	model.leaders[next.LeaderEpoch] = leader
	if unclean {
		model.count.unclean++
		o.uncleanElection(model, before, next)
	}
}

// checkImage verifies that an image contains each topic, and that the leaders in the image were
// elected and stored before.
func (o *oracle) checkImage(l *liveBroker, image *metadata.Image) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.mu.models {
		shown := image.Topic(t.name)
		if shown == nil {
			o.w.fail("%s: the image of broker %d does not have the topic", t.name, l.id)
			return
		}
		p := shown.Partitions[0]
		if p.Leader == metadata.NoBroker {
			continue
		}
		broker, _ := image.Broker(p.Leader)
		leader := [2]int64{int64(p.Leader), broker.Epoch}
		if stored, ok := t.leaders[p.LeaderEpoch]; !ok || stored != leader {
			o.w.fail("%s: the image of broker %d shows leader %v of epoch %d; the stored one is %v",
				t.name, l.id, leader, p.LeaderEpoch, stored)
		}
	}
}

// uncleanElection processes an election that can lose records. The model accepts a loss if the new
// leader was not in the ISR, or if its disk has lost records.
func (o *oracle) uncleanElection(t *partitionModel, before, next placement.Partition) {
	elected := o.w.brokers[next.Leader]
	var own *placement.InSyncReplica
	for _, m := range before.ISR {
		if m.Broker == next.Leader {
			own = &m
			continue
		}
		if l := o.w.brokers[m.Broker].live.Load(); l != nil && l.epoch.Load() == m.Epoch &&
			!o.w.meta.acceptLoss.Load() && !t.settings.UncleanElection {
			o.w.fail(
				"%s: unclean election of broker %d although ISR member %d is alive in epoch %d",
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
			return // nothing is lost, but the operator cannot know this
		}
		if l := elected.live.Load(); l != nil {
			if log := l.store.Log(t.partitionID()); log != nil {
				from = log.LogEnd()
			}
		}
	}
	if own != nil && !elected.lostAllSince(own.Epoch) {
		o.checkPreference(t, next.Leader, before)
	}
	o.w.tracef("%s: records from %d on may be lost", t.name, from)
	t.lossEpoch, t.lostRecords = next.LeaderEpoch, true
	if t.count.losses++; from > 0 {
		o.checkBound(t, elected, *own, from)
	} else {
		t.losses = nil // the leader may have records that were lost earlier
	}
	t.losses = append(t.losses, loss{next.LeaderEpoch, from, from > 0})
	if t.settings.Fsync && o.w.profile.sharedPower && !o.w.profile.allowLoss &&
		!o.w.allDestroyed(before.ISR) {
		o.w.fail("%s: broker %d is elected without records that were synced", t.name, next.Leader)
	}
	t.forget(from)
}

func (t *topic) partitionID() replica.PartitionID { return replica.PartitionID{Topic: t.name} }

// commit processes a record below a high watermark. From now on, the record must not change.
func (o *oracle) commit(t *partitionModel, f logRecord, by int32, how string) {
	had, ok := t.committed[f.offset]
	if !ok {
		if survivor, kept := t.survivors[f.offset]; kept && survivor != f {
			had, ok = survivor, true
		}
	}
	if ok && had != f {
		o.w.fail("%s: offset %d: broker %d %s %+v; the committed record is %+v", t.name, f.offset, by, how, f,
			had)
		return
	}
	if ok {
		return
	}
	t.committed[f.offset] = f
	if start, ok := t.starts[f.epoch]; !ok || f.offset < start {
		t.starts[f.epoch] = f.offset
	}
	if f.sequence < 0 {
		return
	}
	key := [2]int64{f.producer, int64(f.sequence)}
	if offset, ok := t.sequences[key]; ok && offset != f.offset &&
		offset >= max(t.deletedTo, t.expiredTo) {
		o.w.fail("%s: record %d of producer %d is at offsets %d and %d", t.name, f.sequence,
			f.producer, offset, f.offset)
	}
	t.sequences[key] = f.offset
}

// acknowledged processes a batch that its leader acknowledges with acks=all. It must be called
// before the response is sent.
func (o *oracle) acknowledged(l *liveBroker, name string, records []logRecord, duplicate bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	log := l.store.Log(t.partitionID())
	if log == nil || l.dead.Load() {
		return
	}
	for _, f := range records {
		if f.epoch = log.EpochAt(f.offset); f.epoch < t.lossEpoch || f.offset < log.LogStart() {
			return
		}
		for epoch, start := range t.starts {
			if epoch > f.epoch && start <= f.offset {
				o.w.fail("%s: broker %d acknowledges offset %d in epoch %d; epoch %d started at %d",
					t.name, l.id, f.offset, f.epoch, epoch, start)
			}
		}
		o.commit(t, f, l.id, "acknowledges")
		t.count.acknowledged++
		if duplicate {
			t.count.duplicates++
		}
	}
}

// consumed processes the records that a consumer received.
func (o *oracle) consumed(l *liveBroker, name string, records []logRecord) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if log := l.store.Log(t.partitionID()); log == nil || log.LeaderEpoch() < t.lossEpoch {
		return
	}
	for _, f := range records {
		o.commit(t, f, l.id, "returned to a consumer")
	}
	t.count.reads += len(records)
	if _, err := l.set.Leader(t.partitionID(), -1); err != nil {
		t.count.fromFollowers += len(records)
	}
}

func (o *oracle) lostRecords(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).lostRecords
}

// mayForget reports whether a broker is allowed to reject a batch with first record f as out of
// order. This is allowed if records were lost, if the log was cleaned, or if the start of the log
// was deleted. A replica that was copied from such a log knows only the producer's remaining
// batches, or only the last one.
func (o *oracle) mayForget(name string, f *logRecord) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	key := [2]int64{f.producer, int64(f.sequence)}
	offset, settled := t.sequences[key]
	return t.lostRecords || t.settings.Compact && t.appended[key] || settled &&
		offset < max(t.deletedTo, t.expiredTo)
}

// decodeRecords returns the records of complete batches. next is the offset after the last batch.
// epoch is the leader epoch of the last batch, which can be without records. Without a batch, next
// is 0 and epoch is -1.
func decodeRecords(batches []byte) (records []logRecord, next int64, epoch int32, err error) {
	epoch = -1
	for len(batches) > 0 {
		first, rest, err := record.Next(batches)
		if err != nil {
			return records, next, epoch, err
		}
		if err := first.CheckCRC(); err != nil {
			return records, next, epoch, err
		}
		err = first.Records(1<<20, func(r *record.Record) error {
			f := logRecord{
				offset: r.Offset, epoch: first.LeaderEpoch(), key: string(r.Key),
				value: string(r.Value), deleted: r.Value == nil,
				producer: first.ProducerID(), sequence: -1, timestamp: r.Timestamp,
				control: first.Control(),
			}
			if f.producer >= 0 && !f.control {
				f.sequence = first.BaseSequence() + int32(r.Offset-first.BaseOffset())
			}
			records = append(records, f)
			return nil
		})
		if err != nil {
			return records, next, epoch, err
		}
		next, epoch, batches = first.NextOffset(), first.LeaderEpoch(), rest
	}
	return records, next, epoch, nil
}

// read returns the records of a log in [from, to). It reads the log like a follower.
func read(log *logstore.Log, from, to int64) (records []logRecord, err error) {
	for from < to {
		slice, err := log.ReadReplica(from, 1<<20, true)
		if err != nil {
			return records, err
		}
		if slice.Length == 0 {
			slice.Release()
			return records, fmt.Errorf("read at %d: no records", from)
		}
		buf := make([]byte, slice.Length)
		_, err = slice.File.ReadAt(buf, slice.Position)
		slice.Release()
		if err != nil {
			return records, err
		}
		some, next, _, err := decodeRecords(buf)
		if err != nil {
			return records, err
		}
		if next <= from {
			return records, errors.New("read returned earlier offsets only")
		}
		for _, f := range some {
			if f.offset >= from && f.offset < to {
				records = append(records, f)
			}
		}
		from = next
	}
	return records, nil
}
