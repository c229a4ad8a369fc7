package replica

import (
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestApplySkipsUnchangedPartitions changes one partition, then one topic, then the brokers. Only
// the partitions that depend on the change must get a new role.
func TestApplySkipsUnchangedPartitions(t *testing.T) {
	b := newBroker(t)
	for _, name := range []string{"a", "b"} {
		b.topic(name, 2, nil)
	}
	var brokers []metadata.Broker
	apply := func() (changed []string) {
		t.Helper()
		before := map[PartitionID]*role{}
		for id, p := range b.view.Load().partitions {
			before[id] = p.role.Load()
		}
		image := metadata.NewImage(b.cluster, metadata.CleanerBudget{}, brokers,
			[]*metadata.Topic{copyOf(b.topics["a"]), copyOf(b.topics["b"])})
		served, err := b.Apply(image)
		if err != nil || len(served) != 4 {
			t.Fatalf("%d partitions are served, %v", len(served), err)
		}
		for id, p := range b.view.Load().partitions {
			if p.role.Load() != before[id] {
				changed = append(changed, id.String())
			}
		}
		slices.Sort(changed)
		return changed
	}
	all := []string{"a-0", "a-1", "b-0", "b-1"}
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"first image", func() {}, all},
		{"no change", func() {}, nil},
		{"leader epoch", func() { b.topics["a"].Partitions[1].LeaderEpoch++ }, []string{"a-1"}},
		{"settings", func() { b.topics["b"].Settings.SegmentBytes++ }, []string{"b-0", "b-1"}},
		{"brokers", func() { brokers = []metadata.Broker{{ID: self, Epoch: 1}} }, all},
		{"same brokers", func() {}, nil},
	} {
		c.change()
		if got := apply(); !slices.Equal(got, c.want) {
			t.Errorf("%s: partitions %v have new roles, want %v", c.name, got, c.want)
		}
	}
}

// BenchmarkApplyOneChange applies an image that changes one of many partitions. This broker leads a
// third of the partitions.
func BenchmarkApplyOneChange(b *testing.B) {
	for _, partitions := range []int32{1000} {
		b.Run(strconv.Itoa(int(partitions)), func(b *testing.B) {
			store, err := logstore.Open(logstore.Options{FS: vfs.NewMem(), Dir: "/data",
				Logger: slog.New(slog.DiscardHandler), FlushInterval: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			set := NewSet(Options{NodeID: self, Store: store})
			brokers := []metadata.Broker{{ID: self, Epoch: 1}, {ID: 2, Epoch: 1}, {ID: 3, Epoch: 1}}
			topic := &metadata.Topic{Name: "many", ID: metadata.NewID(),
				Settings: topicconfig.Default()}
			for i := range partitions {
				replicas := []int32{self, 2, 3}
				topic.Partitions = append(topic.Partitions, &metadata.Partition{Index: i,
					Replicas: replicas, Leader: replicas[i%3], LeaderEpoch: 1, ISR: replicas,
					ISREpochs: []int64{1, 1, 1}})
			}
			apply := func(epoch int32) {
				next := *topic
				next.Partitions = slices.Clone(topic.Partitions)
				changed := *next.Partitions[0]
				changed.LeaderEpoch = epoch
				next.Partitions[0], topic = &changed, &next
				if _, err := set.Apply(metadata.NewImage("ours", metadata.CleanerBudget{}, brokers,
					[]*metadata.Topic{topic})); err != nil {
					b.Fatal(err)
				}
			}
			apply(1)
			for epoch := int32(2); b.Loop(); epoch++ {
				apply(epoch)
			}
			set.Close()
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
