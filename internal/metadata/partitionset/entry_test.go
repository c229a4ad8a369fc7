package partitionset

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// TestEntriesHaveTheDocumentedText compares entries with the examples in
// docs/internals/format/partition-sets.md.
func TestEntriesHaveTheDocumentedText(t *testing.T) {
	found := int32(40)
	state := State{Partition: placement.Partition{Leader: 1, LeaderEpoch: 34,
		Replicas: []int32{0, 1, 2},
		ISR: []placement.InSyncReplica{
			{Broker: 0, Epoch: 7, Directory: "a"},
			{Broker: 1, Epoch: 12, Directory: "b"},
		},
		ReplicaIncarnations: map[int32]string{0: "mZ81cQx4", 1: "mZ81cQx4", 2: "mZ81cQx4"},
		LeaderDirectory:     "b"}, Serving: true, Changes: 51}
	rare := state
	rare.Leader, rare.LeaderEpoch, rare.Serving = placement.NoLeader, 35, false
	rare.UnprovenEpoch, rare.FoundEpoch, rare.Prefer = 30, &found, 34
	rare.ReplicaIncarnations = map[int32]string{0: "x", 1: "x", 2: "y"}
	for want, s := range map[string]State{
		"1@34 0:7,1:12,2 mZ81cQx4 51":                                    state,
		"-@35? 0:7,1:12,2 x,x,y 51 dir=b unproven=30 found=40 prefer=34": rare,
	} {
		if got := s.format(); got != want {
			t.Errorf("format: got %q, want %q", got, want)
		}
		parsed, err := parseState(want, directories{"0:7": "a", "1:12": "b"})
		if err != nil || !reflect.DeepEqual(*parsed, s) {
			t.Errorf("parse %q: got %+v, %v, want %+v", want, parsed, err, s)
		}
	}
}

func TestInvalidEntriesAreKept(t *testing.T) {
	spec := map[string]string{
		"orders/0": "0,1 abcdefgh",
		"orders/1": "0,0 abcdefgh",
		"orders/x": "0 a",
		"orders/2": "0",
		"orders/3": "0 abcdefgh keep",
		"orders/4": "-1 abcdefgh",
		"a/00":     "0 abcdefgh",
	}
	status := map[string]string{"orders/0": "0@3 0:1,1 i 2", "orders/1": "0@3 0:1 i 2 later=1",
		"orders/2": "0 0 - 2", "orders/3": "0@1 0,0 i 2", "orders/4": "0@1 0,1 a,b,c 2",
		"orders/5": "0@1 0 i 2 unproven=x", "orders/6": ""}
	from := &v1alpha1.PartitionSet{}
	from.Spec.Assignments, from.Status.Partitions = spec, status
	from.Status.Directories = map[string]string{"0:1": "disk", "7:7": "named by an invalid entry"}
	s, faults := Decode(from, nil)
	if len(faults) != 12 || len(s.Keys()) != 1 {
		t.Errorf("got %d faults %v, entries %v", len(faults), faults, s.Keys())
	}
	for _, name := range []string{"orders/1", "orders/2", "orders/5"} {
		if key, _ := ParseKey(name); !s.Invalid(key) {
			t.Errorf("%s is not reported as invalid", name)
		}
	}
	entry, _ := s.Get(Key{"orders", 0})
	next := *entry.State
	next.LeaderEpoch++
	s.PutState(Key{"orders", 0}, next)
	s.Assign(Key{"orders", 0}, Assignment{Replicas: []int32{1}, Tag: "abcdefgh"})
	to := from.DeepCopy()
	s.EncodeSpec(to)
	s.EncodeStatus(to)
	spec["orders/0"], status["orders/0"] = "1 abcdefgh", "0@4 0:1,1 i 3"
	if !reflect.DeepEqual(to.Spec.Assignments, spec) ||
		!reflect.DeepEqual(to.Status.Partitions, status) || len(to.Status.Directories) != 2 {
		t.Errorf("got %v and %v, %v", to.Spec, to.Status.Partitions, to.Status.Directories)
	}
}

// FuzzState checks that a text that can be parsed is formatted as the same text again.
func FuzzState(f *testing.F) {
	f.Add("1@34 0:7,1:12,2 mZ81cQx4 51")
	f.Add("-@35? 0:7,1:12,2 x,x,y 51 dir=b unproven=30 found=40 prefer=34")
	f.Add("0@1? 0 i 0 dir=-")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseState(text, directories{"0:7": "disk"})
		if err != nil {
			return
		}
		again, err := parseState(s.format(), directories{"0:7": "disk"})
		if err != nil || again.format() != s.format() || !reflect.DeepEqual(s, again) {
			t.Errorf("%q is formatted as %q, which parses as %+v, %v", text, s.format(), again, err)
		}
	})
}

// TestPartitionsAreSpread checks that the sets of a thousand topics have similar sizes, and that
// the partitions of one topic are in different sets.
func TestPartitionsAreSpread(t *testing.T) {
	counts := map[int32]int{}
	for topic := range 1000 {
		used := map[int32]bool{}
		for index := range int32(6) {
			number := Number(Key{fmt.Sprintf("topic-%d", topic), index}, v1alpha1.PartitionSets)
			counts[number]++
			used[number] = true
		}
		if len(used) != 6 {
			t.Fatalf("topic %d has its 6 partitions in %d sets", topic, len(used))
		}
	}
	for number := range int32(v1alpha1.PartitionSets) {
		if counts[number] < 300 || counts[number] > 450 {
			t.Errorf("set %d has %d of 6000 partitions", number, counts[number])
		}
	}
}

// randomBrokers returns random states of brokers, with a small number of epochs and disks.
func randomBrokers(
	r *rand.Rand,
	before map[int32]placement.BrokerState,
) map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	for id := range int32(5) {
		b := before[id]
		switch r.IntN(4) {
		case 0:
			b.Liveness = placement.Down
		case 1:
			b.CleanEpoch = -1
			if r.IntN(2) == 0 && b.Liveness == placement.Up {
				b.CleanEpoch = b.Epoch
			}
			b.Epoch++
			b.Liveness, b.Leaving = placement.Up, false
			if b.Directory == "" || r.IntN(10) == 0 {
				b.Directory = fmt.Sprintf("disk-%d-%d", id, b.Epoch)
			}
		case 2:
			b.Leaving = r.IntN(3) == 0
		}
		all[id] = b
	}
	return all
}

// TestDecisionsSurviveTheResource checks that random decisions on a set that is encoded and decoded
// after each step have the same results as the same decisions of package placement on values that
// are never encoded.
func TestDecisionsSurviveTheResource(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 15))
		resource, keys := &v1alpha1.PartitionSet{}, []Key{}
		s, _ := Decode(resource, nil)
		plain, serving := map[Key]placement.Partition{}, map[Key]bool{}
		for index := range int32(4) {
			key := Key{"orders", index}
			keys = append(keys, key)
			s.Assign(key, Assignment{Replicas: randomReplicas(r), Tag: "abcdefgh"})
			plain[key] = placement.Partition{Leader: placement.NoLeader}
		}
		var brokers map[int32]placement.BrokerState
		for step := range 40 {
			brokers = randomBrokers(r, brokers)
			if r.IntN(4) == 0 {
				s.Assign(
					keys[r.IntN(len(keys))],
					Assignment{Replicas: randomReplicas(r), Tag: "abcdefgh"},
				)
			}
			incarnation := fmt.Sprintf("i%d", step)
			in := Input{Topics: map[string]Topic{"orders": {Tag: "abcdefgh", Partitions: 4,
				AllowUnclean: seed%3 == 0}}, Brokers: brokers, Incarnation: incarnation}
			for _, key := range keys {
				entry, _ := s.Get(key)
				p := plain[key]
				p.Target = entry.Assignment.Replicas
				if len(p.Replicas) == 0 {
					p.Replicas = p.Target
				}
				epoch := p.LeaderEpoch
				p = placement.Decide(p, brokers, placement.Options{AllowUnclean: seed%3 == 0,
					ReplicaIncarnation: incarnation}).Partition
				p.Target = nil
				if p.LeaderEpoch != epoch {
					serving[key] = false
				}
				plain[key] = p
			}
			s.Decide(in)
			for _, key := range keys {
				entry, _ := s.Get(key)
				p := plain[key]
				if p.Leader != placement.NoLeader && r.IntN(2) == 0 {
					s.Serve(
						key,
						placement.InSyncReplica{Broker: p.Leader, Epoch: brokers[p.Leader].Epoch},
						p.LeaderEpoch,
					)
					if entry.State.Leads(
						placement.InSyncReplica{Broker: p.Leader, Epoch: brokers[p.Leader].Epoch},
						p.LeaderEpoch,
					) {
						serving[key] = true
					}
				}
			}
			s.EncodeSpec(resource)
			s.EncodeStatus(resource)
			var faults []error
			if s, faults = Decode(resource, s); len(faults) > 0 {
				t.Fatalf("seed %d, step %d: %v", seed, step, faults)
			}
			for _, key := range keys {
				entry, _ := s.Get(key)
				if want := describe(plain[key], serving[key]); describe(
					entry.State.Partition,
					entry.State.Serving,
				) != want {
					t.Fatalf("seed %d, step %d: partition %s is %q, want %s", seed, step, key,
						resource.Status.Partitions[key.String()], want)
				}
			}
			s.Decide(in)
			if s.StatusChanged() {
				t.Fatalf(
					"seed %d, step %d: a second decision changes %v",
					seed,
					step,
					resource.Status,
				)
			}
		}
	}
}

func randomReplicas(r *rand.Rand) (replicas []int32) {
	for _, id := range r.Perm(5)[:1+r.IntN(3)] {
		replicas = append(replicas, int32(id))
	}
	return replicas
}

// describe formats a partition. The ISR is in the order of the replicas.
func describe(p placement.Partition, serving bool) string {
	isr := []string{}
	for _, id := range p.Replicas {
		for _, m := range p.ISR {
			if m.Broker == id {
				isr = append(isr, fmt.Sprint(m))
			}
		}
	}
	return fmt.Sprint(p.Replicas, p.Leader, p.LeaderEpoch, p.UnprovenEpoch, p.ReplicaIncarnations,
		p.LeaderDirectory, strings.Join(isr, " "), p.FoundEpoch == nil, serving)
}

// TestIndexesAreThoseOfNumber checks that the functions Indexes and Number agree for every
// partition.
func TestIndexesAreThoseOfNumber(t *testing.T) {
	for topic := range 50 {
		for _, count := range []int32{1, 3, v1alpha1.PartitionSets} {
			name, partitions := fmt.Sprintf("topic-%d", topic), int32(topic)
			seen := 0
			for number := range count {
				for index := range Indexes(name, number, count, partitions) {
					if got := Number(Key{name, index}, count); got != number {
						t.Errorf("partition %d of %s is in set %d of %d, want %d", index, name, got,
							count, number)
					}
					seen++
				}
			}
			if seen != int(partitions) {
				t.Errorf("%s: %d partitions in %d sets, want %d", name, seen, count, partitions)
			}
		}
	}
}
