package logstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestAppendedRecordsAreReadBack(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
	fill(t, log, 50)
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 50)) {
		t.Errorf("read %v", got)
	}
	if len(bases(log)) < 3 {
		t.Errorf("50 batches in segments of 1000 bytes: got segments %v, want at least 3", bases(log))
	}
}

func TestAppendStampsOffsetsAndLeaderEpoch(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
	if err := log.Lead(7); err != nil {
		t.Fatal(err)
	}
	appendBatch(t, log, keyed(t, "a", "b", "c"))
	appended := appendBatch(t, log, keyed(t, "d", "e"))
	want := Appended{BaseOffset: 3, LastOffset: 4, LogAppendTime: -1}
	if appended != want {
		t.Errorf("appended %+v, want %+v", appended, want)
	}
	slice, err := log.Read(0, log.LogEnd(), 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	for _, b := range batchesOf(t, slice) {
		if b.LeaderEpoch() != 7 {
			t.Errorf("batch at %d has leader epoch %d", b.BaseOffset(), b.LeaderEpoch())
		}
	}
	if epoch := log.EpochAt(4); epoch != 7 {
		t.Errorf("epoch at 4 is %d", epoch)
	}
	if epoch := log.EpochAt(5); epoch != -1 {
		t.Errorf("epoch at the end is %d, want unknown", epoch)
	}
}

func TestAppendReturnsLogAppendTime(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()),
		settings(func(s *topicconfig.Settings) { s.TimestampType = record.LogAppendTime }))
	now := epoch0.Add(time.Hour)
	appended, err := log.Append(keyed(t, "a"), now)
	if err != nil || appended.LogAppendTime != now.UnixMilli() {
		t.Errorf("appended %+v, %v", appended, err)
	}
}

func TestAppendRejectsInvalidBatches(t *testing.T) {
	transactional := func(t *testing.T) []byte {
		return storetest.Batch{Producer: 1, Transactional: true, Keys: []string{"k"},
			Value: "v"}.Bytes(t)
	}
	for _, test := range []struct {
		name  string
		batch func(t *testing.T) []byte
		want  error
	}{
		{"a transactional batch that was not verified", transactional, ErrInvalidTxnState},
		{"a batch larger than a segment", func(t *testing.T) []byte {
			return storetest.Batch{Keys: []string{"k"}, Value: string(make([]byte, 1000))}.Bytes(t)
		}, ErrBatchTooLarge},
		{"a damaged batch", func(t *testing.T) []byte {
			batch := keyed(t, "k")
			batch[len(batch)-1] ^= 1
			return batch
		}, record.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
			if _, err := log.Append(test.batch(t), epoch0); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if log.LogEnd() != 0 {
				t.Errorf("log end is %d after a rejected batch", log.LogEnd())
			}
		})
	}
}

func TestLeadRejectsEarlierEpoch(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	if err := log.Lead(5); err != nil {
		t.Fatal(err)
	}
	fill(t, log, 1)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	log = createLog(t, openStore(t, fsys), settings(nil))
	if err := log.Lead(4); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("epoch 4 after epoch 5 and a restart: %v, want ErrFencedLeaderEpoch", err)
	}
	if err := log.Lead(5); err != nil {
		t.Errorf("the same epoch again: %v", err)
	}
}
