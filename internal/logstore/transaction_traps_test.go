package logstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// The tests in this file check that known transaction faults of Kafka, Redpanda and AutoMQ do not
// occur.

// TestEpochOfAProducerWithAMarkerOnlyNeverFalls checks that a producer keeps its epoch even if the
// log knows only a marker of it (KAFKA-9144). After the producer's batches were deleted, and after
// restarts with and without snapshots, a batch with an earlier epoch is refused.
func TestEpochOfAProducerWithAMarkerOnlyNeverFalls(t *testing.T) {
	now := time.Now() // a start expires producers that have not written for a day
	for name, prepare := range map[string]func(t *testing.T, log *Log){
		"the marker is its only entry": func(*testing.T, *Log) {},
		"its batches were deleted": func(t *testing.T, log *Log) {
			inTxn(t, log, 7, 0, "a")
		},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean %t", name, clean), func(t *testing.T) {
				mem := vfs.NewMem()
				store := openStore(t, mem)
				log := createLog(t, store, settings(nil))
				prepare(t, log)
				end := EndTxn{ProducerID: 7, ProducerEpoch: 5, Version: 2}
				if _, err := log.AppendControl(end, now); err != nil {
					t.Fatal(err)
				}
				log.AdvanceHighWatermark(log.LogEnd())
				if err := log.DeleteBefore(log.LogEnd() - 1); err != nil {
					t.Fatal(err)
				}
				store.tick(now, false)
				if clean {
					if err := store.Close(); err != nil {
						t.Fatal(err)
					}
				}
				log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
				for _, test := range []struct {
					epoch int16
					want  error
				}{{4, ErrInvalidProducerEpoch}, {5, nil}} {
					b := storetest.Batch{Producer: 7, Epoch: test.epoch, Keys: []string{"late"},
						Transactional: true}.Bytes(t)
					if _, err := log.AppendVerified(b, verified,
						epoch0); !errors.Is(err, test.want) {
						t.Errorf("a batch of epoch %d: %v, want %v", test.epoch, err, test.want)
					}
				}
			})
		}
	}
}

// TestAbortedListAtTheEndOfASegmentAndAtTheLastStableOffset checks that a read returns the aborted
// transactions of all its batches, wherever segments end (AutoMQ issue 754), and also if the last
// stable offset limits the read (Redpanda issue 3036). The markers of the aborted transactions are
// in another segment than their batches; one marker is above a transaction that is still open.
func TestAbortedListAtTheEndOfASegmentAndAtTheLastStableOffset(t *testing.T) {
	for segmentBytes := int64(150); segmentBytes <= 600; segmentBytes += 50 {
		store := openStore(t, vfs.NewMem())
		log := createLog(t, store, settings(func(s *topicconfig.Settings) {
			s.SegmentBytes = segmentBytes
		}))
		var want []string
		keep := func(key string) {
			want = append(want, fmt.Sprintf("%d=%s", log.LogEnd(), key))
		}
		sequence := map[int64]int32{}
		write := func(producer int64, key string) {
			inTxn(t, log, producer, sequence[producer], key)
			sequence[producer]++
		}
		for round := range 6 {
			write(7, "aborted")
			keep("b")
			write(8, "b")
			for range round {
				write(7, "aborted")
			}
			endTxn(t, log, 8, true)
			endTxn(t, log, 7, false)
			keep(fmt.Sprintf("k%d", log.LogEnd()))
			fill(t, log, 1)
			log.AdvanceHighWatermark(log.LogEnd())
			expectCommitted(t, fmt.Sprintf("segments of %d bytes", segmentBytes), log, want)
		}
		write(7, "aborted")
		stable := log.LogEnd()
		write(9, "open")
		endTxn(t, log, 7, false)
		if log.LastStable() != stable {
			t.Errorf("last stable offset %d, want %d", log.LastStable(), stable)
		}
		expectCommitted(t, fmt.Sprintf("open, segments of %d bytes", segmentBytes), log, want)
	}
}

// TestLastStableOffsetOfANewLeaderNeverDecreases checks a log that first has a low high watermark
// after a crash, while a new leader does not know its predecessor's high watermark yet. Meanwhile
// the last stable offset is exact for the log's own high watermark, and never decreases (Redpanda
// issue 10671, KAFKA-7544).
func TestLastStableOffsetOfANewLeaderNeverDecreases(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	inTxn(t, log, 7, 0, "a") // 0
	fill(t, log, 1)          // 1
	endTxn(t, log, 7, true)  // 2
	inTxn(t, log, 8, 0, "b") // 3
	inTxn(t, log, 9, 0, "c") // 4
	endTxn(t, log, 8, false) // 5
	fill(t, log, 2)          // 6, 7
	log.AdvanceHighWatermark(1)
	store.tick(epoch0, false)
	log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	last := int64(-1)
	for high, want := range []int64{0, 0, 0, 3, 3, 3, 4, 4, 4} {
		if int64(high) < log.HighWatermark() {
			continue
		}
		log.AdvanceHighWatermark(int64(high))
		got := log.LastStable()
		if got != want || got < last {
			t.Errorf("high watermark %d: last stable offset %d after %d, want %d", high, got, last,
				want)
		}
		last = got
	}
	if log.HighWatermark() != log.LogEnd() || log.LogEnd() != 8 {
		t.Errorf("high watermark %d, log end %d", log.HighWatermark(), log.LogEnd())
	}
}
