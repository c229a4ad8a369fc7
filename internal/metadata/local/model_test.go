package local

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// modelTopic is what a dumb model knows of a topic.
type modelTopic struct {
	manifest   bool
	partitions int
}

// model says which topics there should be, and remembers the highest epoch ever shown for each partition.
type model struct {
	topics map[string]modelTopic
	epochs map[string]int32
}

// TestStoreAgainstAModel does random things to a store, crashes included, and compares it with the model after each.
func TestStoreAgainstAModel(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		mem := memory(t)
		s := open(t, mem)
		m := model{map[string]modelTopic{}, map[string]int32{}}
		if err := s.Sync(nil, 3, nil); err != nil {
			t.Fatal(err)
		}
		for step := range 60 {
			var did string
			did, s, mem = m.step(t, random, s, mem)
			if fault := m.compare(s.Image()); fault != "" {
				t.Fatalf("seed %d, step %d, after %s: %s", seed, step, did, fault)
			}
		}
	}
}

func (m *model) step(t *testing.T, random *rand.Rand, s *Store, mem *vfs.Mem) (string, *Store, *vfs.Mem) {
	name := string(rune('a' + random.IntN(6)))
	switch random.IntN(6) {
	case 0:
		partitions := 1 + random.IntN(4)
		_, err := s.CreateTopic(t.Context(), metadata.NewTopic{Name: name, Partitions: int32(partitions), Replicas: -1})
		if _, exists := m.topics[name]; exists != (err != nil) {
			t.Fatalf("create %s: %v; exists: %t", name, err, exists)
		}
		if err == nil {
			m.topics[name] = modelTopic{false, partitions}
		}
		return "create " + name, s, mem
	case 1:
		err := s.DeleteTopic(t.Context(), name)
		if _, exists := m.topics[name]; exists != (err == nil) {
			t.Fatalf("delete %s: %v; exists: %t", name, err, exists)
		}
		if !m.topics[name].manifest {
			m.forget(name) // its data goes with it, and so do its epochs
		}
		delete(m.topics, name)
		return "delete " + name, s, mem
	case 2:
		return "sync", s, m.sync(t, random, s, mem)
	case 3:
		crashed := mem.CrashClone()
		return "crash", open(t, crashed), crashed
	default:
		run(t, s, random.Int32N(3))()
		return "run", s, mem
	}
}

// sync applies a random set of manifests in which no topic shrinks.
func (m *model) sync(t *testing.T, random *rand.Rand, s *Store, mem *vfs.Mem) *vfs.Mem {
	var manifests []*v1alpha1.Topic
	for _, name := range []string{"a", "b", "c", "d"} {
		before := m.topics[name]
		if random.IntN(3) == 0 {
			if before.manifest {
				delete(m.topics, name)
			}
			continue
		}
		partitions := max(before.partitions, 1+random.IntN(4))
		manifests = append(manifests, topics(t, fmt.Sprintf("%s {partitions: %d}", name, partitions))...)
		m.topics[name] = modelTopic{true, partitions}
	}
	if err := s.Sync(nil, 3, manifests); err != nil {
		t.Fatal(err)
	}
	return mem
}

func (m *model) forget(name string) {
	for i := range 10 {
		delete(m.epochs, fmt.Sprintf("%s-%d", name, i))
	}
}

func (m *model) compare(image *metadata.Image) string {
	if len(image.Topics) != len(m.topics) {
		return fmt.Sprintf("%d topics, want %v", len(image.Topics), m.topics)
	}
	for name, want := range m.topics {
		got := image.Topic(name)
		if got == nil || len(got.Partitions) != want.partitions || got.RetainData != want.manifest {
			return fmt.Sprintf("topic %s is %+v, want %+v", name, got, want)
		}
		for i, p := range got.Partitions {
			key := fmt.Sprintf("%s-%d", name, i)
			switch {
			case int(p.Index) != i || len(p.Replicas) != 1 || p.Replicas[0] < 0 || p.Replicas[0] > 2:
				return fmt.Sprintf("partition %s is %+v", key, p)
			case p.Leader != metadata.NoBroker:
				return fmt.Sprintf("partition %s has leader %d, no broker is up", key, p.Leader)
			case p.LeaderEpoch < m.epochs[key]:
				return fmt.Sprintf("partition %s is at epoch %d, was at %d", key, p.LeaderEpoch, m.epochs[key])
			}
			m.epochs[key] = p.LeaderEpoch
		}
	}
	return ""
}
