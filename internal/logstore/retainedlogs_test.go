package logstore

import (
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// retain creates a partition's log with five records, and releases it with Retain.
func retain(t *testing.T, store *Store, id PartitionID, topic TopicID) {
	t.Helper()
	log, err := store.Create(id, topic, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, log, 5)
	if err := store.Release(id, true); err != nil {
		t.Fatal(err)
	}
}

// TestRetainedLogsAreRemovedByTopicID checks that RemoveRetained removes only the logs of one topic
// id. After a crash a new log of the partition is empty, and other retained logs are complete.
func TestRetainedLogsAreRemovedByTopicID(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	doomed, kept := PartitionID{Topic: "doomed", Index: 3}, PartitionID{Topic: "kept"}
	retain(t, store, doomed, topicOne)
	retain(t, store, kept, topicTwo)
	all, err := store.Retained()
	if err != nil || len(all) != 2 {
		t.Fatalf("retained %+v, error %v, want two logs", all, err)
	}
	if all[0].ID != doomed || all[0].Topic != topicOne || all[0].SizeBytes == 0 {
		t.Fatalf("first %+v, want %s of topic id %s with its size", all[0], doomed, topicOne)
	}
	removed, err := store.RemoveRetained(func(id PartitionID, topic TopicID) bool {
		return topic == topicOne && id.Index == 3
	})
	if err != nil || len(removed) != 1 || removed[0].ID != doomed {
		t.Fatalf("%+v, error %v", removed, err)
	}
	crashed := openStore(t, mem.CrashClone())
	for id, want := range map[PartitionID]int64{doomed: 0, kept: 5} {
		log, err := crashed.Create(id, TopicID{9}, settings(nil), true)
		if err != nil {
			t.Fatal(err)
		}
		if log.LogEnd() != want {
			t.Errorf("%s: log end %d, want %d", id, log.LogEnd(), want)
		}
	}
}

// TestOpenLogIsNotRemoved checks that RemoveRetained does not remove the open log of a topic that
// was created again, because the log has another topic id than its retained predecessor. It does
// not remove an open log with the matching topic id either, and reports that.
func TestOpenLogIsNotRemoved(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	id := PartitionID{Topic: "tickets"}
	retain(t, store, id, topicOne)
	if _, err := store.Create(id, topicTwo, settings(nil), true); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[TopicID]error{topicOne: nil, topicTwo: ErrNotReleased} {
		removed, err := store.RemoveRetained(func(_ PartitionID, found TopicID) bool {
			return found == topic
		})
		if len(removed) > 0 || !errors.Is(err, want) {
			t.Errorf("topic %s: removed %+v, error %v, want %v", topic, removed, err, want)
		}
	}
	if log := store.Log(id); log == nil || log.LogEnd() != 5 {
		t.Error("the records are gone")
	}
}

// TestFailedRemovalIsReported checks that a retained log whose directory cannot be renamed stays,
// and that another attempt removes it.
func TestFailedRemovalIsReported(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	store := openStore(t, fault)
	retain(t, store, PartitionID{Topic: "tickets"}, topicOne)
	all := func(PartitionID, TopicID) bool { return true }
	fault.Inject(vfs.Rule{Op: vfs.OpRename})
	if _, err := store.RemoveRetained(all); !errors.Is(err, ErrStorage) {
		t.Errorf("error %v, want ErrStorage", err)
	}
	fault.Clear()
	if removed, err := store.RemoveRetained(all); err != nil || len(removed) != 1 {
		t.Errorf("another attempt: %+v, error %v", removed, err)
	}
	if left, err := store.Retained(); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, error %v", left, err)
	}
}
