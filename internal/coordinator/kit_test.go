package coordinator

import (
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/internaltopic"
)

const self = internaltopic.Self

// broker is a group coordinator with real replicas and logs. Its offsets topic has one partition.
type broker struct {
	*Groups
	*internaltopic.Broker
	t testing.TB
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBroker(t testing.TB, disk vfs.FS, id metadata.ID) *broker {
	t.Helper()
	return newBrokerAt(t, disk, "/data", id)
}

// newBrokerAt returns a broker whose logs are in the directory dir. id is the id of the offsets
// topic. The test must call Stop.
func newBrokerAt(t testing.TB, disk vfs.FS, dir string, id metadata.ID) *broker {
	t.Helper()
	return newBrokerWith(t, internaltopic.New(t, disk, dir, id))
}

func newBrokerWith(t testing.TB, with *internaltopic.Broker) *broker {
	t.Helper()
	b := &broker{t: t, Broker: with}
	b.Groups = NewGroups(Options{NodeID: self, Replicas: b.Replicas, Image: b.Image,
		Await: b.AwaitImage, Admin: b, Config: group.Config{Retention: time.Hour,
			ConsumerAssignment: -1}})
	b.Coordinator = b.Groups
	return b
}

// awaitLoaded waits until the shard is loaded and the whole log is below the high watermark.
func (b *broker) awaitLoaded() {
	b.t.Helper()
	b.AwaitLoaded(func() bool {
		_, err := b.List(b.t.Context())
		return err == nil
	})
}

// awaitLoadedUnstored waits until the shard is loaded but, unlike awaitLoaded, does not wait for
// the high watermark.
func (b *broker) awaitLoadedUnstored() {
	b.t.Helper()
	b.AwaitLoaded(func() bool {
		err := b.Heartbeat(b.t.Context(), "g", "unknown", "", 0)
		return errors.Is(err, group.ErrUnknownMember)
	})
}

func (b *broker) commit(offset int64, member string, generation int32) error {
	return b.commitFor(metadata.ID{}, offset, member, generation)
}

// commitFor commits an offset of topic t with the given topic id.
func (b *broker) commitFor(topic metadata.ID, offset int64, member string, generation int32) error {
	errs, err := b.Commit(b.t.Context(), group.Commit{
		Group: "g", Member: member, Generation: generation,
		Offsets: []group.CommitOffset{{Topic: "t",
			Offset: group.Offset{Offset: offset, LeaderEpoch: -1, ExpireMs: -1, TopicID: topic}}},
	})
	if err == nil {
		err = errs[0]
	}
	return err
}

func (b *broker) committed() (int64, error) {
	found, err := b.Committed(b.t.Context(), "g", []group.TopicPartition{{Topic: "t"}})
	if err != nil {
		return 0, err
	}
	return found[0].Offset.Offset, nil
}

// join makes m the only member of group g and its leader, with an assignment.
func (b *broker) join() group.Joined {
	b.t.Helper()
	joined, err := b.Join(b.t.Context(), group.Join{
		Group: "g", NewMember: "m", Session: 10 * time.Second, Rebalance: 30 * time.Second,
		ProtocolType: "consumer",
		Protocols:    []group.Protocol{{Name: "range", Metadata: []byte("subscription")}},
	})
	must(b.t, err)
	synced, err := b.Sync(b.t.Context(), group.Sync{
		Group: "g", Member: "m", Generation: joined.Generation,
		Assignments: map[string][]byte{"m": []byte("all")},
	})
	must(b.t, err)
	if string(synced.Assignment) != "all" {
		b.t.Fatalf("assignment %q, want \"all\"", synced.Assignment)
	}
	return joined
}

func (b *broker) wantPhase(want string) {
	b.t.Helper()
	d, err := b.Describe(b.t.Context(), "g")
	must(b.t, err)
	if d.Phase != want {
		b.t.Errorf("the group is %s, want %s", d.Phase, want)
	}
}
