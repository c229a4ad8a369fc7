package runtime

import (
	"errors"
	"fmt"
	stdruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

var errRefused = errors.New("refused")

// puts returns one store event per key, and a slice in which the events store their results. The
// event for the key "refused" stores no record and fails.
func puts(value string, keys ...string) (events []event, results []error) {
	results = make([]error, len(keys))
	for i, key := range keys {
		var refused error
		events = append(events, event{
			prepare: func(time.Time) []state.Record {
				if key == "refused" {
					refused = errRefused
					return nil
				}
				return put(key, fmt.Sprint(value, i)).Records
			},
			stored: func(err error) { results[i] = errors.Join(refused, err) },
		})
	}
	return events, results
}

func TestConcurrentStoresShareOneAppend(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.Stop()
	b.Lead(1, self)
	s := b.detached()
	events, results := puts("", "a", "refused", "b", "a")
	before := b.appended()
	s.storeAll(time.Now(), events)
	if appends := b.appended() - before; appends != 1 {
		t.Errorf("%v appends, want 1", appends)
	}
	for i, err := range results {
		if want := []error{nil, errRefused, nil, nil}[i]; !errors.Is(err, want) {
			t.Errorf("event %d: %v, want %v", i, err, want)
		}
	}
	if a, b := s.machine.values["a"], s.machine.values["b"]; a != "3" || b != "2" {
		t.Errorf("a = %q, b = %q; want 3 and 2", a, b)
	}
}

func TestOversizedRecordFailsAlone(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.Stop()
	b.Topic.Settings.MessageBytesMax = 1000
	b.Lead(1, self)
	s := b.detached()
	first, firstResults := puts("short", "a", "b")
	large, largeResults := puts(strings.Repeat("x", 2000), "c")
	rest, restResults := puts("short", "d")
	s.storeAll(time.Now(), append(append(first, large...), rest...))
	if err := errors.Join(append(firstResults, restResults...)...); err != nil {
		t.Errorf("the other records: %v", err)
	}
	if err := largeResults[0]; !errors.Is(err, state.ErrRecordTooLarge) {
		t.Errorf("the oversized record: %v", err)
	}
	again := b.detached()
	for key, want := range map[string]bool{"a": true, "b": true, "c": false, "d": true} {
		_, has := s.machine.values[key]
		if _, stored := again.machine.values[key]; has != want || stored != want {
			t.Errorf("%s: in the state %v, in the log %v, want %v", key, has, stored, want)
		}
	}
}

// TestStoresWithoutLeadershipFailTogether checks that, on a broker that is no longer the leader, a
// thousand store events build only a single batch, which cannot be appended, and all fail. Without
// this optimization, each event would build a batch.
func TestStoresWithoutLeadershipFailTogether(t *testing.T) {
	b := newBroker(t, vfs.NewMem(), metadata.NewID())
	defer b.Stop()
	b.Lead(1, self)
	s := b.detached()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	keys[500] = "refused"
	run := func() (results []error, allocated uint64) {
		events, results := puts(strings.Repeat("x", 100), keys...)
		var before, after stdruntime.MemStats
		stdruntime.ReadMemStats(&before)
		s.storeAll(time.Now(), events)
		stdruntime.ReadMemStats(&after)
		return results, after.TotalAlloc - before.TotalAlloc
	}
	_, stored := run()
	b.Lead(2, 2)
	results, failed := run()
	for i, err := range results {
		if refused := errors.Is(err, errRefused); refused != (i == 500) ||
			errors.Is(err, ErrNotCoordinator) == refused {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if s.inconsistent {
		t.Error("the shard is marked inconsistent although no volatile state had changed")
	}
	if failed > 2*stored {
		t.Errorf("allocated bytes of failed stores: got %d, want at most twice the %d of stores",
			failed, stored)
	}
}

func TestFailedStoreAfterVolatileChangeReloadsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Topic.Settings.MessageBytesMax = 1000
		b.Lead(1, self)
		s := b.shard()
		must(t, b.put("a", "1"))
		waited := make(chan error, 1)
		go func() {
			_, err := b.await("never")
			waited <- err
		}()
		synctest.Wait()
		_, err := Call(t.Context(), s, func(_ time.Time, m *register) (string, output, error) {
			m.values["a"] = "volatile"
			out := put("a", strings.Repeat("x", 2000))
			out.VolatileChanged = true
			return "", out, nil
		})
		if !errors.Is(err, state.ErrRecordTooLarge) {
			t.Errorf("the call returned %v", err)
		}
		if err := <-waited; !errors.Is(err, ErrLoading) {
			t.Errorf("the waiting request returned %v", err)
		}
		if _, err := b.get("a"); !errors.Is(err, ErrLoading) {
			t.Errorf("while reloading: %v", err)
		}
		if b.shard() != s {
			t.Error("the shard was replaced")
		}
		b.wantValue("a", "1")
	})
}

func TestAnswersWaitForTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.shard()
		must(t, b.put("a", "1"))
		b.Lead(2, self, 2) // broker 2 does not run, so the high watermark does not advance
		b.shard()          // uses CallVolatile, which does not wait for the high watermark
		began := time.Now()
		if err := b.put("a", "2"); !errors.Is(err, ErrNotAvailable) ||
			time.Since(began) != StoreTimeout {
			t.Errorf("store: %v after %v", err, time.Since(began))
		}
		if got, err := b.get("a"); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("read %q, %v", got, err)
		}
		b.Lead(3, self)
		b.shard()
		b.wantValue("a", "2") // the unacknowledged record is in the leader's log
	})
}
