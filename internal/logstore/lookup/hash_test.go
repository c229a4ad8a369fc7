package lookup

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// sealedLog returns a compacted log of an open store. The log's first segment has a key sidecar.
func sealedLog(t *testing.T) *logstore.Log {
	t.Helper()
	store, err := logstore.Open(logstore.Options{FS: vfs.NewMem(), Dir: "/data",
		Logger: slog.New(slog.DiscardHandler), FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	log, err := store.Create(logstore.PartitionID{Topic: "tickets"}, logstore.TopicID{1},
		storetest.Compacted(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		batch := storetest.Batch{Keys: []string{fmt.Sprintf("k%d", i)},
			Value: strings.Repeat("v", 200)}
		if _, err := log.Append(batch.Bytes(t), storetest.Start); err != nil {
			t.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if _, err := log.Compaction().Roll(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the first segment has a key sidecar", func() bool {
		log.Compaction().BuildSidecar(t.Context(), time.Now(), compaction.BuildOptions{})
		list := log.Compaction().Env().List.Acquire()
		defer list.Release()
		state := list.Handles[0].SidecarState()
		return state != nil && state.Digest != 0
	})
	return log
}

// TestLookupChecksTheKeyBehindAHash checks that a lookup does not return a record whose key is
// different but has the same hash.
func TestLookupChecksTheKeyBehindAHash(t *testing.T) {
	c := sealedLog(t).Compaction()
	list := c.Env().List.Acquire()
	defer list.Release()
	reader, err := c.Sidecars.Open(list.Handles[0], true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for key, want := range map[string]int{"k999": 0, "k0": 1} {
		s := keyLookup{compaction: c, log: c.Env(), ctx: t.Context(), key: []byte(key),
			opts: Options{}.withDefaults()}
		s.result.HighWatermark = s.log.Offsets.HighWatermark()
		s.result.LastStable = s.log.Offsets.LastStable()
		s.list = list
		_, s.states = c.States(s.list.Handles, storetest.Start)
		b, err := s.locator(0, reader).locate(0) // entry of k0, as if the hashes were equal
		if err == nil {
			err = s.locatedBatch(0, reader, b, 0)
		}
		if err != nil || len(s.result.Records) != want {
			t.Errorf("%s: found %+v, error %v", key, s.result.Records, err)
		}
	}
}
