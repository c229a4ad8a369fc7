package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// modelTopic is the expected state of a topic.
type modelTopic struct {
	manifest bool
	// true if the manifests of the last Apply contain the topic, and the store has not crashed since
	described  bool
	partitions int
	replicas   int
}

// model contains the expected topics and the highest published leader epoch of each partition.
type model struct {
	topics map[string]modelTopic
	epochs map[string]int32
}

// TestStoreAgainstModel performs random operations, including crashes, and compares the image with
// the model after each of them.
func TestStoreAgainstModel(t *testing.T) {
	for seed := range seed.Sequence(t, 60) {
		random := rand.New(rand.NewPCG(seed, 5))
		mem := memory(t)
		s := open(t, mem)
		m := model{map[string]modelTopic{}, map[string]int32{}}
		if err := s.Sync(nil, 3, nil); err != nil {
			t.Fatal(err)
		}
		for step := range 60 {
			var action string
			action, s, mem = m.step(t, random, s, mem)
			if fault := m.compare(s.Image()); fault != "" {
				t.Fatalf("seed %d, step %d, after %s: %s", seed, step, action, fault)
			}
		}
	}
}

func (m *model) step(t *testing.T, random *rand.Rand, s *Store, mem *vfs.Mem) (string, *Store,
	*vfs.Mem) {
	name := string(rune('a' + random.IntN(6)))
	switch random.IntN(7) {
	case 0:
		partitions, replicas := 1+random.IntN(4), 1+random.IntN(3)
		_, err := s.CreateTopic(t.Context(),
			metadata.NewTopic{Name: name, Partitions: int32(partitions), Replicas: int32(replicas)})
		if _, exists := m.topics[name]; exists != (err != nil) {
			t.Fatalf("create %s: %v; exists: %t", name, err, exists)
		}
		if err == nil {
			m.topics[name] = modelTopic{partitions: partitions, replicas: replicas}
		}
		return "create " + name, s, mem
	case 1:
		err := s.DeleteTopic(t.Context(), name)
		before, exists := m.topics[name]
		if before.described != errors.Is(err, metadata.ErrPolicy) ||
			!before.described && exists != (err == nil) {
			t.Fatalf("delete %s: %v; exists: %t, %+v", name, err, exists, before)
		}
		if before.described {
			return "refused deletion of " + name, s, mem
		}
		if !m.topics[name].manifest {
			m.forget(name) // the topic's data and leader epochs are not retained
		}
		delete(m.topics, name)
		return "delete " + name, s, mem
	case 2:
		return "sync", s, m.sync(t, random, s, mem)
	case 3:
		crashed := mem.CrashClone()
		for name, topic := range m.topics {
			topic.described = false
			m.topics[name] = topic
		}
		return "crash", open(t, crashed), crashed
	case 4:
		m.lead(t, random, s)
		return "run of all brokers", s, mem
	default:
		run(t, s, random.Int32N(3))()
		return "run", s, mem
	}
}

// sync applies random manifests that reduce no topic's number of partitions. It keeps some of the
// topics that are not in the manifests.
func (m *model) sync(t *testing.T, random *rand.Rand, s *Store, mem *vfs.Mem) *vfs.Mem {
	var manifests []*v1alpha1.Topic
	var kept []string
	for _, name := range []string{"a", "b", "c", "d"} {
		before := m.topics[name]
		if absent := random.IntN(5); absent < 2 {
			switch {
			case before.manifest && absent == 0:
				delete(m.topics, name)
			case before.manifest:
				kept = append(kept, name)
				before.described = false
				m.topics[name] = before
			}
			continue
		}
		partitions, replicas := max(before.partitions, 1+random.IntN(4)), 1+random.IntN(3)
		manifests = append(manifests,
			topics(t, fmt.Sprintf("%s {partitions: %d, replicas: %d}", name, partitions,
				replicas))...)
		m.topics[name] = modelTopic{true, true, partitions, replicas}
	}
	err := s.Apply(&Manifests{Brokers: 3, Topics: manifests, KeepTopics: kept})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// lead starts all brokers and adds all replicas to the ISRs, which completes all reassignments.
// Each partition must then have the requested number of replicas.
func (m *model) lead(t *testing.T, random *rand.Rand, s *Store) {
	stop := run(t, s, 0, 1, 2)
	defer stop()
	for _, topic := range s.Image().Topics {
		for _, p := range topic.Partitions {
			if p.Leader == metadata.NoBroker {
				t.Fatalf("%s-%d has no leader although all brokers are up: %+v", topic.Name,
					p.Index, p)
			}
			inSync := metadata.ISRChange{Topic: topic.ID, Partition: p.Index,
				LeaderEpoch: p.LeaderEpoch, From: p.ISR}
			for _, id := range p.Replicas {
				b, _ := s.Image().Broker(id)
				inSync.To = append(inSync.To,
					metadata.InSync{Broker: id, Epoch: b.Epoch,
						ReplicaIncarnation: p.ReplicaIncarnation(id)})
			}
			if err := changeISR(t, s, inSync); err != nil {
				t.Fatal(err)
			}
			now := s.Image().Topic(topic.Name).Partitions[p.Index]
			if want := m.topics[topic.Name].replicas; len(now.Replicas) != want ||
				len(now.ISR) != want || now.Target != nil {
				t.Fatalf("%s-%d: %+v, want %d replicas, all in sync", topic.Name, p.Index, now,
					want)
			}
		}
	}
	if random.IntN(2) == 0 {
		if err := s.Balance(); err != nil {
			t.Fatal(err)
		}
	}
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
			return fmt.Sprintf("topic %s: got %+v, want %+v", name, got, want)
		}
		for i, p := range got.Partitions {
			key := fmt.Sprintf("%s-%d", name, i)
			switch {
			case int(p.Index) != i || len(p.Replicas) < 1 || len(p.Replicas) > 3,
				slices.Max(p.Replicas) > 2:
				return fmt.Sprintf("partition %s has an invalid index or invalid replicas: %+v", key, p)
			case (p.LeaderEpoch == 0) != (len(p.ISR) == 0):
				return fmt.Sprintf("partition %s has a leader epoch and no ISR, or the reverse: %+v", key, p)
			case p.Leader != metadata.NoBroker:
				return fmt.Sprintf("partition %s has leader %d although no broker is up", key,
					p.Leader)
			case p.LeaderEpoch < m.epochs[key]:
				return fmt.Sprintf("leader epoch of partition %s is %d, but was %d before", key, p.LeaderEpoch,
					m.epochs[key])
			}
			m.epochs[key] = p.LeaderEpoch
		}
	}
	return ""
}
