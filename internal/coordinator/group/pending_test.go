package group

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/test/kit/seed"
)

// entry is a record or a marker in the log of a pendingWorld.
type entry struct {
	state.Stored
	id     int32 // partition of topic "t" whose offset is stored
	offset int64 // stored offset; -1 for a tombstone
	marker bool
	commit bool
}

// pendingWorld stores offsets of group "g", within and outside transactions. It keeps the log.
type pendingWorld struct {
	t     *testing.T
	now   time.Time
	state *State
	log   []entry // records, with gaps after a compaction
	end   int64   // offset of the next record
}

type noPendingTimers struct{}

func (noPendingTimers) Set(TimerKey, time.Duration) {}
func (noPendingTimers) Clear(TimerKey)              {}

func newPendingWorld(t *testing.T) *pendingWorld {
	w := &pendingWorld{t: t, now: time.Unix(1_700_000_000, 0)}
	w.load()
	return w
}

// load replaces the State with one that it loads from the log.
func (w *pendingWorld) load() {
	w.t.Helper()
	w.state = New(Config{Retention: time.Hour}, noPendingTimers{})
	for _, e := range w.log {
		w.replay(e)
	}
	w.state.Loaded(w.now)
}

func (w *pendingWorld) replay(e entry) {
	w.t.Helper()
	var err error
	if e.marker {
		_, err = w.state.ReplayMarker(w.now,
			state.Marker{ProducerID: e.ProducerID, Commit: e.commit})
	} else {
		_, err = w.state.ReplayAt(w.now, e.Stored)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *pendingWorld) append(e entry) {
	w.t.Helper()
	e.Offset = w.end
	w.end++
	w.log = append(w.log, e)
	w.replay(e)
}

// store appends an output's records. All of them contain the given offset.
func (w *pendingWorld) store(out Output, producer int64, offset int64) {
	w.t.Helper()
	for _, r := range out.Records {
		e := entry{Stored: state.Stored{Record: r, ProducerID: producer}, offset: offset}
		if r.Value == nil {
			e.offset = -1
		}
		if _, err := fmt.Sscan(fmt.Sprint(r.Key[len(r.Key)-1]), &e.id); err != nil {
			w.t.Fatal(err)
		}
		w.append(e)
	}
}

// commit commits an offset, in a transaction unless producer is state.NoProducer.
func (w *pendingWorld) commit(producer int64, id int32, offset int64) {
	w.t.Helper()
	c := Commit{Group: "g", Generation: -1, Offsets: []CommitOffset{{Topic: "t", Partition: id,
		Offset: Offset{Offset: offset, LeaderEpoch: -1, ExpireMs: -1}}}}
	commit := w.state.Commit
	if producer != state.NoProducer {
		commit = w.state.CommitTransactional
	}
	errs, out, err := commit(w.now, c)
	if err = errors.Join(append(errs, err)...); err != nil {
		w.t.Fatal(err)
	}
	w.store(out, producer, offset)
}

func (w *pendingWorld) mark(producer int64, commit bool) {
	w.t.Helper()
	w.append(entry{Stored: state.Stored{ProducerID: producer}, marker: true, commit: commit})
}

// outcome reports whether an entry's transaction has ended, and whether it was committed. Records
// without a transaction count as committed.
func (w *pendingWorld) outcome(i int) (decided, committed bool) {
	producer := w.log[i].ProducerID
	if producer == state.NoProducer {
		return true, true
	}
	for _, e := range w.log[i:] {
		if e.marker && e.ProducerID == producer {
			return true, e.commit
		}
	}
	return false, false
}

// want returns the expected committed offsets, and the partitions with pending offsets. For each
// partition, the last record that took effect decides, as in a compacted log.
func (w *pendingWorld) want() (offsets map[int32]int64, pending map[int32]bool) {
	offsets, pending = map[int32]int64{}, map[int32]bool{}
	for i, e := range w.log {
		decided, committed := w.outcome(i)
		switch {
		case e.marker:
		case !decided:
			pending[e.id] = true
		case !committed:
		case e.offset < 0:
			delete(offsets, e.id)
			delete(pending, e.id) // the tombstone also drops the pending offsets before it
		default:
			offsets[e.id] = e.offset
		}
	}
	return offsets, pending
}

func (w *pendingWorld) check(step string) {
	w.t.Helper()
	offsets, pending := w.want()
	got := map[int32]int64{}
	for _, o := range w.state.AllCommitted("g") {
		got[o.Partition] = o.Offset.Offset
	}
	if !maps.Equal(got, offsets) || w.state.Offsets() != len(offsets) {
		w.t.Fatalf("%s: committed offsets %v (%d), want %v", step, got, w.state.Offsets(), offsets)
	}
	for id := range int32(4) {
		if stable := w.state.IsStable("g", "t", id); stable == pending[id] {
			w.t.Fatalf("%s: partition %d is stable: %t", step, id, stable)
		}
	}
	if exists := w.state.Groups() > 0; exists != (len(offsets)+len(pending) > 0) {
		w.t.Fatalf("%s: group exists: %t, offsets %v, pending %v", step, exists, offsets, pending)
	}
}

// compact removes the entries that the cleaner would remove: below the first offset of the first
// open transaction, records of aborted transactions, and records superseded by another record with
// the same key.
func (w *pendingWorld) compact(random *rand.Rand) {
	stable := len(w.log)
	last := map[int32]int{}
	for i, e := range w.log {
		if decided, _ := w.outcome(i); !e.marker && !decided {
			stable = min(stable, i)
		}
	}
	for i, e := range w.log[:stable] {
		if _, committed := w.outcome(i); !e.marker && committed {
			last[e.id] = i
		}
	}
	var kept []entry
	for i, e := range w.log {
		latest, known := last[e.id]
		tombstone := e.offset < 0 && random.IntN(2) == 0
		if e.marker || i >= stable || known && latest == i && !tombstone {
			kept = append(kept, e)
		}
	}
	w.log = kept
}

// TestPendingOffsetsFollowTheModel checks the State against the log after random commits within and
// outside transactions, markers, deletions, expiries and failovers. A partition's offset is
// determined by its last record that took effect. A failover may load the compacted log.
func TestPendingOffsetsFollowTheModel(t *testing.T) {
	for seed := range seed.Sequence(t, 200) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newPendingWorld(t)
		for i := range 80 {
			w.check(fmt.Sprintf("seed %d, step %d", seed, i))
			id, producer := random.Int32N(4), 7+random.Int64N(3)
			switch n := random.IntN(20); {
			case n < 4:
				w.commit(state.NoProducer, id, int64(1000+i))
			case n < 10:
				w.commit(producer, id, int64(1000+i))
			case n < 14:
				w.mark(producer, random.IntN(2) == 0)
			case n < 16:
				_, out, err := w.state.DeleteOffsets("g", []TopicPartition{{"t", id}})
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
				w.store(out, state.NoProducer, -1)
			case n < 17:
				w.now = w.now.Add(20 * time.Minute)
				out, _ := w.state.Expire(w.now, 100)
				w.store(out, state.NoProducer, -1)
			case n < 18 && random.IntN(4) == 0:
				if out, err := w.state.Delete("g"); err == nil {
					w.store(out, state.NoProducer, -1)
				}
			case n < 19:
				w.compact(random)
				w.load()
			default:
				w.load()
			}
		}
	}
}

// TestPlainCommitWithinATransactionCounts checks that a commit without a transaction supersedes an
// earlier record of a transaction whose marker comes later. The records are at 5 (transaction) and
// 7, and the marker is at 9. The commit at 7 must decide, before and after a failover, and after
// the log has been cleaned.
func TestPlainCommitWithinATransactionCounts(t *testing.T) {
	w := newPendingWorld(t)
	w.end = 5
	w.commit(1, 0, 50)
	w.end = 7
	w.commit(state.NoProducer, 0, 70)
	w.end = 9
	w.mark(1, true)
	want := func(stage string) {
		t.Helper()
		if o, _ := w.state.Committed("g", "t", 0); o.Offset != 70 {
			t.Errorf("%s: committed offset %d", stage, o.Offset)
		}
	}
	want("live")
	w.load()
	want("loaded")
	w.compact(rand.New(rand.NewPCG(1, 1)))
	w.load()
	want("cleaned")
}

// TestGroupWithPendingOffsetsDoesNotExpire checks that a group that has only pending offsets does
// not expire (KAFKA-19163), and that the group is removed when the transaction is aborted
// (KAFKA-19164).
func TestGroupWithPendingOffsetsDoesNotExpire(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(1, 0, 50)
	w.now = w.now.Add(24 * time.Hour)
	if out, _ := w.state.Expire(w.now, 100); len(out.Records) > 0 || w.state.Groups() != 1 {
		t.Errorf("expired %d records, %d groups", len(out.Records), w.state.Groups())
	}
	w.mark(1, false)
	if w.state.Groups() != 0 {
		t.Error("the group exists after the abort")
	}
}

// TestTombstonesOfPendingOffsets checks that a partition's offset does not expire while the
// partition has a pending offset, because the tombstone would drop the pending offset. OffsetDelete
// must drop the pending offset, even if nothing is committed yet.
func TestTombstonesOfPendingOffsets(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(state.NoProducer, 0, 40)
	w.commit(1, 0, 50)
	w.commit(1, 1, 60)
	w.now = w.now.Add(24 * time.Hour)
	if out, _ := w.state.Expire(w.now, 100); len(out.Records) > 0 {
		t.Errorf("expired %d records", len(out.Records))
	}
	_, out, err := w.state.DeleteOffsets("g", []TopicPartition{{"t", 1}})
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%d tombstones, %v", len(out.Records), err)
	}
	w.store(out, state.NoProducer, -1)
	w.mark(1, true)
	if all := w.state.AllCommitted("g"); len(all) != 1 || all[0].Offset.Offset != 50 {
		t.Errorf("committed %+v", all)
	}
}

// TestSecondCommitOfATransactionCounts checks that the later of two commits for the same partition
// in one transaction decides.
func TestSecondCommitOfATransactionCounts(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(state.NoProducer, 0, 40)
	w.commit(1, 0, 60)
	w.commit(1, 0, 50)
	if o, _ := w.state.Committed("g", "t", 0); o.Offset != 40 || w.state.IsStable("g", "t", 0) {
		t.Errorf("before the marker: %+v", o)
	}
	w.mark(1, true)
	if o, _ := w.state.Committed("g", "t", 0); o.Offset != 50 || !w.state.IsStable("g", "t", 0) {
		t.Errorf("committed %+v", o)
	}
}

// TestAbortedOffsetsLeaveThePreviousOffset checks that a group keeps its previous offset, even
// after a failover, if a transaction that only commits offsets is aborted.
func TestAbortedOffsetsLeaveThePreviousOffset(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(state.NoProducer, 0, 40)
	w.commit(1, 0, 60)
	w.mark(1, false)
	for _, stage := range []string{"live", "loaded"} {
		o, _ := w.state.Committed("g", "t", 0)
		if o.Offset != 40 || !w.state.IsStable("g", "t", 0) {
			t.Errorf("%s: committed %+v", stage, o)
		}
		w.load()
	}
}

// TestDeletedGroupDropsPendingOffsets checks that a transaction's marker does not restore offsets
// if it follows the deletion of the group, not even in a new group with the same id.
func TestDeletedGroupDropsPendingOffsets(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(1, 0, 50)
	w.commit(state.NoProducer, 1, 60)
	out, err := w.state.Delete("g")
	if err != nil || len(out.Records) != 2 {
		t.Fatalf("%d tombstones, %v", len(out.Records), err)
	}
	w.store(out, state.NoProducer, -1)
	w.commit(state.NoProducer, 2, 70)
	w.mark(1, true)
	if all := w.state.AllCommitted("g"); len(all) != 1 || all[0].Partition != 2 {
		t.Errorf("committed %+v", all)
	}
}

// TestPendingOffsetsOfDeletedTopics checks that a pending offset is dropped when its topic is
// deleted with its records.
func TestPendingOffsetsOfDeletedTopics(t *testing.T) {
	w := newPendingWorld(t)
	w.commit(1, 0, 50)
	w.store(w.state.DeleteStaleOffsets(func(string, [16]byte) bool { return true }),
		state.NoProducer, -1)
	w.mark(1, true)
	if w.state.Groups() != 0 {
		t.Errorf("committed %+v", w.state.AllCommitted("g"))
	}
}

// TestTransactionalCommitOfClassicGroup checks that members of a group must commit with their
// generation (KIP-447), and that producers of older clients may commit without one.
func TestTransactionalCommitOfClassicGroup(t *testing.T) {
	p := newFixture(t, Config{InitialDelay: -1})
	commit := func(group, member, instance string, generation int32) error {
		_, _, err := p.state.CommitTransactional(p.now, Commit{Group: group, Member: member,
			Instance: instance, Generation: generation})
		return err
	}
	for _, test := range []struct {
		name      string
		err, want error
	}{
		{"no group, no member", commit("none", "", "", -1), nil},
		{"no group, a generation", commit("none", "m", "", 3), ErrIllegalGeneration},
	} {
		if !errors.Is(test.err, test.want) || test.want == nil && test.err != nil {
			t.Errorf("%s: got %v, want %v", test.name, test.err, test.want)
		}
	}
	token := p.join("range")
	p.advance(time.Second)
	joined := p.answers[token].Result.Joined
	if joined.Generation != 1 {
		t.Fatalf("joined %+v", p.answers[token])
	}
	for _, test := range []struct {
		name             string
		member, instance string
		generation       int32
		want             error
	}{
		{"no member", "", "", -1, nil},
		{"member, while the rebalance completes", joined.Member, "", 1, nil},
		{"former generation", joined.Member, "", 0, ErrIllegalGeneration},
		{"former member", "gone", "", 1, ErrUnknownMember},
		{"unknown instance", joined.Member, "i", 1, ErrUnknownMember},
	} {
		if err := commit("g", test.member, test.instance, test.generation); !errors.Is(err,
			test.want) || test.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
		}
	}
}

// TestTransactionalCommitOfConsumerGroup checks that a member of the consumer protocol must commit
// with its epoch. With a stale epoch it must get an error that clients of TxnOffsetCommit know.
func TestTransactionalCommitOfConsumerGroup(t *testing.T) {
	p := newFixture(t, Config{})
	answer, err := p.heartbeat("m", consumer.EpochJoin)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		member string
		epoch  int32
		want   error
	}{
		"no member":     {"", -1, nil},
		"member":        {"m", answer.Epoch, nil},
		"later epoch":   {"m", answer.Epoch + 1, ErrIllegalGeneration},
		"former member": {"gone", answer.Epoch, ErrUnknownMember},
	} {
		_, _, err := p.state.CommitTransactional(p.now, Commit{Group: "g", Member: test.member,
			Generation: test.epoch})
		if !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// TestGroupRecordInATransactionIsCorrupt checks that a group record in a transactional batch is
// rejected as corrupt, because only offsets are stored in transactions.
func TestGroupRecordInATransactionIsCorrupt(t *testing.T) {
	w := newPendingWorld(t)
	_, err := w.state.ReplayAt(w.now, state.Stored{Record: Record{Key: groupKey("g")},
		ProducerID: 1})
	if !errors.Is(err, ErrCorruptRecord) {
		t.Errorf("got %v", err)
	}
}
