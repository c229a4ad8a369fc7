package logstore

import (
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestRepeatedMarkerSucceedsWithoutAWrite repeats a marker of transaction version 2, as a
// coordinator does that has not received the response, even after it has reloaded its state. The
// repeated marker succeeds and writes nothing. It is acknowledged once the log end is replicated,
// because the first marker may not be replicated yet (KAFKA-19999).
func TestRepeatedMarkerSucceedsWithoutAWrite(t *testing.T) {
	_, _, log := newLogForTest(t)
	inTxn(t, log, 7, 0, "a") // 0
	end := EndTxn{ProducerID: 7, ProducerEpoch: 1, Version: 2, CoordinatorEpoch: 3}
	if got, err := log.AppendControl(end, epoch0); err != nil || got.Duplicate ||
		got.LastOffset != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	appendBatch(t, log, keyed(t, "k")) // 2
	for coordinator := range int32(3) {
		end.CoordinatorEpoch = 3 + coordinator
		if got, err := log.AppendControl(end, epoch0); err != nil || !got.Duplicate ||
			got.LastOffset != 2 || log.LogEnd() != 3 {
			t.Fatalf("repeat: %+v, %v; the log ends at %d", got, err, log.LogEnd())
		}
	}
	log.Follow()
	if _, err := log.AppendControl(end, epoch0); !errors.Is(err, ErrFollows) {
		t.Errorf("a follower acknowledged a marker: %v", err)
	}
}

// TestVerificationGuard checks that a batch is refused, although the coordinator has approved it,
// if its transaction ends between the verification and the append (KAFKA-14884), even if the
// producer's next transaction is already open in the same epoch. A batch verified in another leader
// epoch is refused, too.
func TestVerificationGuard(t *testing.T) {
	abort := func(log *Log) { endTxn(t, log, 7, false) }
	for name, test := range map[string]struct {
		before, between func(*Log)
		want            error
	}{
		"nothing happens": {abort, func(*Log) {}, nil},
		"a marker of another producer": {abort,
			func(log *Log) { endTxn(t, log, 8, false) }, nil},
		"the first marker of the producer": {func(*Log) {}, abort, ErrVerificationOutdated},
		"another marker of the producer":   {abort, abort, ErrVerificationOutdated},
		"the next transaction is open": {abort, func(log *Log) {
			abort(log)
			inTxn(t, log, 7, 0, "next")
		}, ErrVerificationOutdated},
		"the producer expires": {abort, func(log *Log) {
			log.Producers().expire(epoch0.Add(producer.Expiry))
			abort(log)
		}, ErrVerificationOutdated},
		"another leader epoch": {abort, func(log *Log) {
			if err := log.Lead(5); err != nil {
				t.Fatal(err)
			}
		}, ErrVerificationOutdated},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, log := newLogForTest(t)
			test.before(log)
			needed, guard, err := log.NeedsVerification(7, 0)
			if err != nil || !needed {
				t.Fatalf("verification is needed: %t, %v", needed, err)
			}
			test.between(log)
			end, stable := log.LogEnd(), log.LastStable()
			batch := storetest.Batch{Producer: 7, Sequence: int32(log.LogEnd()), Keys: []string{"a"},
				Transactional: true}
			if test.want == nil || !log.Producers().HasOpenTransaction(7, 0) {
				batch.Sequence = 0
			}
			_, err = log.AppendVerified(batch.Bytes(t), Verified{Transaction: true, Guard: guard},
				epoch0)
			if test.want == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, test.want) || log.LogEnd() != end || log.LastStable() != stable {
				t.Errorf("got error %v, end %d, stable up to %d, want %v, %d and %d", err,
					log.LogEnd(), log.LastStable(), test.want, end, stable)
			}
		})
	}
}

// TestNeedsVerification checks that only the first batch of a transaction needs a verification. An
// outdated epoch is an error whatever the coordinator knows (KAFKA-19690).
func TestNeedsVerification(t *testing.T) {
	_, _, log := newLogForTest(t)
	want := func(stage string, epoch int16, needed bool, want error) {
		t.Helper()
		got, _, err := log.NeedsVerification(7, epoch)
		if got != needed || !errors.Is(err, want) {
			t.Errorf("%s: got %t, %v, want %t, %v", stage, got, err, needed, want)
		}
	}
	want("unknown producer", 0, true, nil)
	inTxn(t, log, 7, 0, "a")
	want("open transaction", 0, false, nil)
	want("open transaction of an earlier epoch", 1, true, nil)
	if _, err := log.AppendControl(EndTxn{ProducerID: 7, ProducerEpoch: 1, Version: 2},
		epoch0); err != nil {
		t.Fatal(err)
	}
	want("ended transaction", 1, true, nil)
	want("old epoch", 0, false, ErrInvalidProducerEpoch)
	log.Follow()
	want("follower", 1, false, ErrFollows)
}
