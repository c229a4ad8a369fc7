package transaction

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
)

// log runs a State with one transactional id in the same way as the runtime, without faults.
type log struct {
	*State
	t       *testing.T
	now     time.Time
	records []Record
	timers  map[TimerKey]time.Time
	answers map[Token]Answer
	markers []Marker
	token   Token
	nextID  int64
}

func (l *log) Set(key TimerKey, d time.Duration) { l.timers[key] = l.now.Add(d) }
func (l *log) Clear(key TimerKey)                { delete(l.timers, key) }

func newLog(t *testing.T, entries ...entry) *log {
	l := &log{t: t, now: time.Unix(1_700_000_000, 0), answers: map[Token]Answer{}}
	for _, e := range entries {
		l.records = append(l.records, encode("a", e))
	}
	l.reload()
	return l
}

func (l *log) reload() {
	l.timers, l.markers = map[TimerKey]time.Time{}, nil
	l.State = New(Config{ProducerID: func() (int64, error) {
		l.nextID++
		return 100 + l.nextID, nil
	}}, l)
	for _, r := range l.records {
		l.replay(r)
	}
	l.apply(l.Loaded(l.now))
}

func (l *log) replay(r Record) []Answer {
	l.t.Helper()
	more, err := l.Replay(l.now, r.Key, r.Value)
	if err != nil {
		l.t.Fatal(err)
	}
	return more
}

func (l *log) apply(out Output) {
	answers := out.Answers
	for _, r := range out.Records {
		l.records = append(l.records, r)
		answers = append(answers, l.replay(r)...)
	}
	for _, a := range answers {
		if a.To == state.Effect {
			l.markers = append(l.markers, *a.Result.Marker)
			continue
		}
		l.answers[a.To] = a
	}
}

func (l *log) next() Token { l.token++; return l.token }

var none = Producer{ID: NoProducerID, Epoch: noEpoch}

func (l *log) init(expected Producer) Token {
	to := l.next()
	l.apply(l.Init(l.now, Init{To: to, ID: "a", Timeout: time.Minute, Expected: expected}))
	return to
}

func (l *log) add(p Producer, version int16, connection uint64) Token {
	to := l.next()
	l.apply(l.Add(l.now, Add{To: to, ID: "a", Producer: p, Version: version,
		Partitions: []Partition{{"t", 0}}, Connection: connection}))
	return to
}

func (l *log) end(p Producer, commit bool, version int16, connection uint64) Token {
	to := l.next()
	l.apply(l.End(l.now, End{To: to, ID: "a", Producer: p, Commit: commit, Version: version,
		Connection: connection}))
	return to
}

// acknowledge acknowledges the newest marker.
func (l *log) acknowledge() {
	l.t.Helper()
	if len(l.markers) == 0 {
		l.t.Fatal("no marker was released")
	}
	m := l.markers[len(l.markers)-1]
	l.apply(l.Acknowledged(l.now, m.ID, m.Serial, m.Partitions))
}

// pass advances the clock and fires all timers that are due.
func (l *log) pass(d time.Duration) {
	l.now = l.now.Add(d)
	for key, moment := range l.timers {
		if !moment.After(l.now) {
			delete(l.timers, key)
			l.apply(l.Fire(l.now, key))
		}
	}
}

func (l *log) wantAnswer(to Token, want Producer, wantErr error) {
	l.t.Helper()
	a, answered := l.answers[to]
	switch {
	case !answered:
		l.t.Fatalf("request %d was not answered", to)
	case !errors.Is(a.Err, wantErr):
		l.t.Fatalf("request %d: got error %v, want %v", to, a.Err, wantErr)
	case wantErr == nil && a.Result.Producer != want:
		l.t.Fatalf("request %d: got producer %v, want %v", to, a.Result.Producer, want)
	}
}

func (l *log) wantWaiting(to Token) {
	l.t.Helper()
	if a, answered := l.answers[to]; answered {
		l.t.Fatalf("request %d was answered with %+v, and should wait", to, a)
	}
}

func (l *log) wantPhase(want Phase) {
	l.t.Helper()
	if got := l.byID["a"].phase; got != want {
		l.t.Fatalf("got phase %s, want %s", got, want)
	}
}

func ongoing(epoch, version int16) entry {
	now := time.Unix(1_700_000_000, 0)
	e := newEntry(now, 7, time.Minute)
	e.producer.Epoch = epoch
	return e.extended(now, []Partition{{"t", 0}}, version)
}

func TestTransactionOfVersion0(t *testing.T) {
	l := newLog(t)
	p := Producer{101, 0}
	l.wantAnswer(l.init(none), p, nil)
	l.wantAnswer(l.add(p, 0, 0), Producer{}, nil)
	l.wantAnswer(l.end(p, true, 0, 0), p, nil)
	l.wantPhase(PrepareCommit)
	next := l.add(p, 0, 0)
	l.wantWaiting(next) // the next transaction begins once this one is complete
	l.acknowledge()
	l.wantAnswer(next, Producer{}, nil)
	l.wantPhase(Ongoing)
	l.wantAnswer(l.end(p, false, 0, 0), p, nil)
	l.acknowledge()
	l.wantAnswer(l.end(p, false, 0, 0), p, nil) // repeats the request
	l.wantAnswer(l.end(p, true, 0, 0), p, ErrInvalidState)
}

func TestTransactionOfVersion2(t *testing.T) {
	l := newLog(t, ongoing(3, 2))
	p, next := Producer{7, 3}, Producer{7, 4}
	l.wantAnswer(l.end(p, true, 2, 0), next, nil)
	if m := l.markers[0]; m.Producer != next || !m.Commit || m.Version != 2 {
		t.Errorf("got marker %+v", m)
	}
	repeated, added := l.end(p, true, 2, 0), l.add(next, 2, 0)
	l.wantWaiting(repeated)
	l.wantAnswer(l.end(p, false, 2, 0), p, ErrInvalidState)
	l.wantAnswer(l.add(p, 2, 0), p, ErrFenced)
	l.acknowledge()
	l.wantAnswer(repeated, next, nil)
	l.wantAnswer(added, Producer{}, nil)
	l.wantAnswer(l.end(p, true, 2, 0), p, ErrFenced) // repeats the request too late
}

// TestCommitMeetsTimeout checks that a client does not mistake the coordinator's abort for its own
// commit (KAFKA-20785).
func TestCommitMeetsTimeout(t *testing.T) {
	for version, want := range map[int16]error{0: ErrFenced, 2: ErrFenced} {
		l := newLog(t, ongoing(3, version))
		l.pass(2 * time.Minute)
		l.wantPhase(PrepareAbort)
		l.wantAnswer(l.end(Producer{7, 3}, true, version, 0), Producer{}, want)
		l.acknowledge()
		l.wantAnswer(l.end(Producer{7, 3}, true, version, 0), Producer{}, want)
		if got := l.Ended(); got != (Ended{TimedOut: 1}) {
			t.Errorf("got %+v", got)
		}
	}
}

// TestOwnAbortAtLastEpoch checks that the coordinator's own abort at the last epoch bumps the epoch
// once, and then changes the producer id (KAFKA-19367, KAFKA-20090).
func TestOwnAbortAtLastEpoch(t *testing.T) {
	t.Run("InitProducerId", func(t *testing.T) {
		l := newLog(t, ongoing(lastUsableEpoch, 0))
		to := l.init(none)
		l.wantPhase(PrepareAbort)
		if got := l.markers[0].Producer; got != (Producer{7, lastUsableEpoch + 1}) {
			t.Errorf("got marker of %v", got)
		}
		l.acknowledge()
		l.wantAnswer(to, Producer{101, 0}, nil)
	})
	t.Run("timeout", func(t *testing.T) {
		l := newLog(t, ongoing(lastUsableEpoch, 2))
		l.pass(2 * time.Minute)
		l.acknowledge()
		l.wantAnswer(l.end(Producer{7, lastUsableEpoch}, false, 2, 0), Producer{101, 0}, nil)
	})
}

// TestRotationIsRepeatable checks that a repeated request gets the same new producer id, even from
// the next coordinator (KAFKA-18660, KAFKA-20310, KAFKA-20357).
func TestRotationIsRepeatable(t *testing.T) {
	last := Producer{7, lastUsableEpoch}
	t.Run("EndTxn", func(t *testing.T) {
		l := newLog(t, ongoing(lastUsableEpoch, 2))
		l.wantAnswer(l.end(last, true, 2, 0), Producer{101, 0}, nil)
		l.reload()
		repeated, added := l.end(last, true, 2, 0), l.add(Producer{101, 0}, 2, 0)
		l.acknowledge()
		l.wantAnswer(repeated, Producer{101, 0}, nil)
		l.wantAnswer(added, Producer{}, nil)
	})
	t.Run("EndTxn after the transaction is complete", func(t *testing.T) {
		l := newLog(t, ongoing(lastUsableEpoch, 2))
		l.end(last, true, 2, 0)
		l.acknowledge()
		l.reload()
		l.wantAnswer(l.end(last, true, 2, 0), Producer{101, 0}, nil)
	})
	t.Run("InitProducerId", func(t *testing.T) {
		e := newEntry(time.Unix(1_700_000_000, 0), 7, time.Minute)
		e.producer = last
		l := newLog(t, e)
		l.wantAnswer(l.init(last), Producer{101, 0}, nil)
		l.reload()
		l.wantAnswer(l.init(last), Producer{101, 0}, nil)
	})
}

// TestEmptyAbortBehindCommit checks that an abort without partitions that follows a commit must use
// the commit's epoch (KAFKA-18464).
func TestEmptyAbortBehindCommit(t *testing.T) {
	l := newLog(t, ongoing(3, 2))
	l.end(Producer{7, 3}, true, 2, 0)
	l.acknowledge()
	l.wantAnswer(l.end(Producer{7, 4}, false, 2, 0), Producer{7, 5}, nil)
	l.wantPhase(CompleteAbort)
	l.wantAnswer(l.end(Producer{7, 4}, false, 2, 0), Producer{7, 5}, nil)
	l.wantAnswer(l.end(Producer{7, 5}, true, 2, 0), Producer{}, ErrInvalidState)
}

// TestEmptyAbortBehindUnfinishedCommit checks that an abort waits if the producer's preceding
// commit is not complete. All batches of the aborted transaction have failed. franz-go's TestTxnEtl
// found this case.
func TestEmptyAbortBehindUnfinishedCommit(t *testing.T) {
	for _, epoch := range []int16{3, lastUsableEpoch} {
		l := newLog(t, ongoing(epoch, 2))
		next, after := Producer{7, epoch + 1}, Producer{7, epoch + 2}
		if epoch == lastUsableEpoch {
			next, after = Producer{101, 0}, Producer{101, 1}
		}
		l.wantAnswer(l.end(Producer{7, epoch}, true, 2, 0), next, nil)
		abort := l.end(next, false, 2, 0)
		commit := l.end(next, true, 2, 0)
		if _, answered := l.answers[abort]; answered {
			t.Fatalf("epoch %d: the abort was answered before the commit was complete", epoch)
		}
		l.acknowledge()
		l.wantAnswer(abort, after, nil)
		l.wantAnswer(commit, Producer{}, ErrInvalidState)
		l.wantPhase(CompleteAbort)
	}
}

// TestFenceThatIsNotStored checks that repeated fencing does not bump the epoch while the record
// cannot be stored (KAFKA-9666).
func TestFenceThatIsNotStored(t *testing.T) {
	l := newLog(t, ongoing(3, 0))
	for range 3 {
		l.now = l.now.Add(2 * time.Minute)
		l.Fire(l.now, TimerKey{"a", abortTimer}) // the record is lost
	}
	l.apply(l.Fire(l.now, TimerKey{"a", abortTimer}))
	if got := l.markers[0].Producer; got != (Producer{7, 4}) {
		t.Errorf("got marker of %v, want epoch 4", got)
	}
}

// TestOldAcknowledgements checks that acknowledgements of an earlier marker, and repeated
// acknowledgements, have no effect (KAFKA-16352).
func TestOldAcknowledgements(t *testing.T) {
	l := newLog(t, ongoing(3, 0))
	l.end(Producer{7, 3}, true, 0, 0)
	l.acknowledge()
	n := len(l.records)
	l.acknowledge()
	l.add(Producer{7, 3}, 0, 0)
	l.end(Producer{7, 3}, true, 0, 0)
	first := l.markers[0]
	l.apply(l.Acknowledged(l.now, "a", first.Serial, first.Partitions))
	l.wantPhase(PrepareCommit)
	if got := len(l.records); got != n+2 {
		t.Errorf("got %d records, want %d", got, n+2)
	}
}

// TestLateEndTxn checks that a late EndTxn of one transaction does not end the next one. Below
// version 2, both transactions have the same epoch.
func TestLateEndTxn(t *testing.T) {
	l := newLog(t, ongoing(3, 0))
	p := Producer{7, 3}
	l.wantAnswer(l.end(p, true, 0, 2), p, nil)
	l.acknowledge()
	l.wantAnswer(l.add(p, 0, 2), Producer{}, nil)
	l.wantAnswer(l.end(p, true, 0, 1), Producer{}, ErrConcurrent) // sent on an earlier connection
	l.wantPhase(Ongoing)

	l = newLog(t, ongoing(3, 2)) // in version 2 the epochs differ
	l.wantAnswer(l.end(p, true, 2, 2), Producer{7, 4}, nil)
	l.acknowledge()
	l.wantAnswer(l.add(Producer{7, 4}, 2, 0), Producer{}, nil)
	l.wantAnswer(l.end(p, true, 2, 1), Producer{}, ErrFenced)
	l.wantPhase(Ongoing)
}

// TestInitOfEarlierInstance checks that an earlier instance of a producer neither gets the later
// instance's epoch nor aborts its transaction.
func TestInitOfEarlierInstance(t *testing.T) {
	l := newLog(t, newEntry(time.Unix(1_700_000_000, 0), 7, time.Minute))
	l.wantAnswer(l.init(none), Producer{7, 1}, nil)
	l.wantAnswer(l.init(Producer{7, 0}), Producer{}, ErrFenced)
	l.add(Producer{7, 1}, 0, 0)
	l.wantAnswer(l.init(Producer{7, 0}), Producer{}, ErrFenced)
	l.wantPhase(Ongoing)
	own := l.init(Producer{7, 1})
	l.wantPhase(PrepareAbort)
	l.acknowledge()
	l.wantAnswer(own, Producer{7, 2}, nil)
	l.wantAnswer(l.init(Producer{7, 1}), Producer{7, 2}, nil) // repeats the request
}

// TestTimeoutOfTransactionWithoutData checks that a client that adds a partition and exits leaves
// no open transaction (Redpanda#18324).
func TestTimeoutOfTransactionWithoutData(t *testing.T) {
	l := newLog(t, ongoing(0, 0))
	l.pass(59 * time.Second)
	l.wantPhase(Ongoing)
	l.pass(time.Second)
	l.wantPhase(PrepareAbort)
	l.acknowledge()
	l.wantPhase(CompleteAbort)
}

// TestGraceAfterLoad checks that no transaction times out immediately if the new coordinator's
// clock is ahead.
func TestGraceAfterLoad(t *testing.T) {
	l := newLog(t, ongoing(0, 0))
	l.now = l.now.Add(time.Hour)
	l.reload()
	l.pass(LoadGrace - time.Second)
	l.wantPhase(Ongoing)
	l.pass(time.Second)
	l.wantPhase(PrepareAbort)

	l = newLog(t, ongoing(0, 0)) // the clock of the previous coordinator was ahead
	l.now = l.now.Add(-time.Hour)
	l.reload()
	l.pass(time.Minute)
	l.now = l.now.Add(time.Hour)
	l.pass(time.Minute)
	l.wantPhase(PrepareAbort)
}

func TestParkedRequestsAreAnswered(t *testing.T) {
	l := newLog(t, ongoing(0, 0))
	p := Producer{7, 0}
	l.end(p, true, 0, 0)
	first := l.add(p, 0, 0)
	l.now = l.now.Add(ParkedMax / 2)
	second := l.init(none)
	l.pass(ParkedMax / 2)
	l.wantAnswer(first, Producer{}, ErrConcurrent)
	l.wantWaiting(second)
	l.pass(ParkedMax / 2)
	l.wantAnswer(second, Producer{}, ErrConcurrent)
}

func TestInvalidRequests(t *testing.T) {
	l := newLog(t)
	for _, timeout := range []time.Duration{0, -1, 15*time.Minute + 1} {
		to := l.next()
		l.apply(l.Init(l.now, Init{To: to, ID: "a", Timeout: timeout, Expected: none}))
		l.wantAnswer(to, Producer{}, ErrInvalidTimeout)
	}
	l.wantAnswer(l.add(Producer{7, 0}, 0, 0), Producer{}, ErrInvalidMapping)
	l.wantAnswer(l.end(Producer{7, 0}, true, 2, 0), Producer{}, ErrInvalidMapping)
	l.wantAnswer(l.init(Producer{7, 0}), Producer{101, 0}, nil) // the transactional id has expired
	l.wantAnswer(l.add(Producer{7, 0}, 0, 0), Producer{}, ErrInvalidMapping)
	l.wantAnswer(l.end(Producer{101, 0}, true, 0, 0), Producer{}, ErrInvalidState)
	if _, err := l.Abort(l.now, "a"); !errors.Is(err, ErrInvalidState) {
		t.Errorf("Abort without a transaction: got %v", err)
	}
}

func TestVerify(t *testing.T) {
	l := newLog(t, ongoing(3, 0))
	to := l.next()
	ask := Add{To: to, ID: "a", Producer: Producer{7, 3}, Verify: true,
		Partitions: []Partition{{"t", 0}, {"t", 1}}}
	l.apply(l.Add(l.now, ask))
	if got := l.answers[to].Result.Absent; !reflect.DeepEqual(got, []Partition{{"t", 1}}) {
		t.Errorf("got absent %v, want t-1", got)
	}
	l.end(Producer{7, 3}, true, 0, 0)
	ask.To = l.next()
	l.apply(l.Add(l.now, ask))
	l.wantWaiting(ask.To) // a verification also waits for the end of the transaction
	l.acknowledge()
	if got := l.answers[ask.To].Result.Absent; len(got) != 2 {
		t.Errorf("got absent %v, want both partitions", got)
	}
}

func TestAbortByAdministrator(t *testing.T) {
	l := newLog(t, ongoing(3, 2))
	out, err := l.Abort(l.now, "a")
	if err != nil {
		t.Fatal(err)
	}
	l.apply(out)
	l.acknowledge()
	l.wantPhase(CompleteAbort)
	if got := l.Ended(); got != (Ended{Fenced: 1}) {
		t.Errorf("got %+v", got)
	}
}

func TestExpire(t *testing.T) {
	l := newLog(t, ongoing(3, 2))
	l.now = l.now.Add(365 * 24 * time.Hour)
	if out, _ := l.Expire(l.now, 10); len(out.Records) > 0 {
		t.Error("an ongoing transaction expired")
	}
	l.end(Producer{7, 3}, true, 2, 0)
	l.acknowledge()
	l.now = l.now.Add(7 * 24 * time.Hour)
	out, more := l.Expire(l.now, 10)
	l.apply(out)
	if l.Len() != 0 || more || len(l.timers) > 0 {
		t.Errorf("%d ids are left, more %t, timers %v", l.Len(), more, l.timers)
	}
}
