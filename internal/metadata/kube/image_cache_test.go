package kube

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// cluster contains the resources of a LogCluster as a watch delivers them.
type cluster struct {
	decoded  decodedSets
	resource *v1alpha1.LogCluster
	topics   []*v1alpha1.Topic
	sets     []*v1alpha1.PartitionSet
	version  int
}

// newCluster returns a LogCluster. Each of its topics has ten partitions on three brokers.
func newCluster(topics int, sets int32) *cluster {
	c := &cluster{resource: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo",
		UID: clusterUID}}}
	for index := range sets {
		c.sets = append(c.sets, &v1alpha1.PartitionSet{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PartitionSetName("demo", index),
				UID: uid(int(index) + 1), ResourceVersion: "1"},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "demo", Index: index, Count: sets},
		})
	}
	changed := map[int32]*partitionset.Set{}
	for n := range topics {
		topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("topic-%d", n),
			UID: uid(1000 + n), Generation: 1},
			Spec: v1alpha1.TopicSpec{Cluster: "demo", Partitions: 10}}
		c.topics = append(c.topics, topic)
		for index := range topic.Spec.Partitions {
			key := partitionset.Key{Topic: topic.Name, Index: index}
			number := partitionset.Number(key, sets)
			if changed[number] == nil {
				changed[number], _ = partitionset.Decode(c.sets[number], nil)
			}
			c.put(changed[number], key, topic, 1, []int64{7, 7, 7})
		}
	}
	for number, set := range changed {
		c.store(number, set)
	}
	return c
}

// put sets a partition's assignment and state. epochs contains the broker epoch of each broker, or
// -1 if the broker is not in sync.
func (c *cluster) put(set *partitionset.Set, key partitionset.Key, topic *v1alpha1.Topic,
	leaderEpoch int32, epochs []int64) {
	topicID, _ := id(topic.UID) // the uids in this test are valid
	replicas := []int32{key.Index % 3, (key.Index + 1) % 3, (key.Index + 2) % 3}
	set.Assign(key, partitionset.Assignment{Replicas: replicas, Tag: partitionset.Tag(topicID)})
	p := placement.Partition{Replicas: replicas, Leader: placement.NoLeader,
		LeaderEpoch: leaderEpoch, ReplicaIncarnations: map[int32]string{}}
	for _, broker := range replicas {
		p.ReplicaIncarnations[broker] = "i"
		if epochs[broker] >= 0 {
			p.ISR = append(p.ISR, placement.InSyncReplica{Broker: broker, Epoch: epochs[broker],
				Directory: "disk-" + strconv.Itoa(int(broker))})
		}
	}
	if len(p.ISR) > 0 {
		p.Leader, p.LeaderDirectory = p.ISR[0].Broker, p.ISR[0].Directory
	}
	set.PutState(key, partitionset.State{Partition: p, Serving: true})
}

// store replaces a set by a new version with the entries of the given decoded set.
func (c *cluster) store(number int32, set *partitionset.Set) {
	c.version++
	next := c.sets[number].DeepCopy()
	set.EncodeSpec(next)
	set.EncodeStatus(next)
	next.ResourceVersion = strconv.Itoa(c.version + 1)
	c.sets[number] = next
}

func (c *cluster) resources() resources {
	return resources{name: "demo", cluster: c.resource, topics: c.topics,
		sets: c.decoded.decode("demo", c.sets)}
}

func aliveBrokers(epochs ...int64) map[int32]metadata.Broker {
	alive := map[int32]metadata.Broker{}
	for broker, epoch := range epochs {
		if epoch > 0 {
			alive[int32(broker)] = metadata.Broker{ID: int32(broker), Epoch: epoch, CleanEpoch: -1,
				Directory: "disk-" + strconv.Itoa(broker)}
		}
	}
	return alive
}

// TestCachedImageIsTheSame checks, after each of many random changes, that an image that reuses
// parts of the previous image equals an image built from scratch. Only partition epochs may be
// older.
func TestCachedImageIsTheSame(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 15))
		c := newCluster(4, 3)
		cache, alive := imageCache{}, aliveBrokers(7, 7, 7)
		var last *metadata.Image
		for step := range 60 {
			c.changeRandomly(random, &alive)
			got, faults := cache.image(c.resources(), alive, last)
			r := c.resources()
			r.sets = (&decodedSets{}).decode("demo", c.sets)
			want, _ := r.build(alive, last)
			withoutNewerEpochs(t, got, want)
			if len(faults) > 0 || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d: faults %v, got\n%swant\n%s", seed, step, faults,
					describe(got), describe(want))
			}
			last = got
		}
	}
}

// withoutNewerEpochs replaces the partition epochs in image with those of an older image.
func withoutNewerEpochs(t *testing.T, older, image *metadata.Image) {
	t.Helper()
	for _, topic := range image.Topics {
		before := older.TopicByID(topic.ID)
		for index, p := range topic.Partitions {
			if before == nil || index >= len(before.Partitions) {
				continue // the caller's comparison of the images will fail
			}
			epoch := before.Partitions[index].PartitionEpoch
			if epoch > p.PartitionEpoch {
				t.Fatalf("topic %s, partition %d: partition epoch %d, want at most %d", topic.Name,
					index, epoch, p.PartitionEpoch)
			}
			p.PartitionEpoch = epoch
		}
	}
}

func (c *cluster) changeRandomly(random *rand.Rand, alive *map[int32]metadata.Broker) {
	index := random.IntN(len(c.topics))
	topic := c.topics[index].DeepCopy()
	key := partitionset.Key{Topic: topic.Name, Index: random.Int32N(10)}
	number := partitionset.Number(key, int32(len(c.sets)))
	set, _ := partitionset.Decode(c.sets[number], nil)
	switch random.IntN(7) {
	case 0: // a broker fails, or returns in another epoch
		epochs := []int64{7, 7, 7}
		epochs[random.IntN(3)] = random.Int64N(3) * 4
		*alive = aliveBrokers(epochs...)
	case 1: // an election, which also changes the ISR
		epochs := []int64{7, 7, 7}
		epochs[random.IntN(3)] = random.Int64N(3)*5 - 1
		c.put(set, key, topic, random.Int32N(9), epochs)
	case 2: // a change that images do not contain
		entry, _ := set.Get(key)
		if entry.State != nil {
			state := *entry.State
			state.Serving = !state.Serving
			set.PutState(key, state)
		}
	case 3:
		set.RemoveState(key)
		set.Unassign(key)
	case 4: // the Topic is deleted and created again
		topic.UID = uid(random.IntN(1000) + 2000)
	case 5: // the topic's settings change
		topic.Generation++
		topic.Spec.MinInSyncReplicas = new(random.Int32N(3) + 1)
	case 6:
		topic.Spec.Partitions, topic.Generation = random.Int32N(10)+1, topic.Generation+1
	}
	c.topics[index] = topic
	c.store(number, set)
}

// TestUnchangedPartsAreReused checks that an election rebuilds only one partition and its topic,
// and that a change that images do not contain rebuilds nothing.
func TestUnchangedPartsAreReused(t *testing.T) {
	c := newCluster(3, 2)
	var cache imageCache
	alive := aliveBrokers(7, 7, 7)
	first, _ := cache.image(c.resources(), alive, nil)
	key := partitionset.Key{Topic: "topic-1", Index: 4}
	number := partitionset.Number(key, 2)
	set, _ := partitionset.Decode(c.sets[number], nil)
	c.put(set, key, c.topics[1], 2, []int64{7, 7, 7})
	other := partitionset.Key{Topic: "topic-2", Index: 1}
	if partitionset.Number(other, 2) == number {
		other.Index++
	}
	c.store(number, set)
	second, _ := cache.image(c.resources(), alive, first)
	for _, topic := range second.Topics {
		before := first.Topic(topic.Name)
		if (topic == before) != (topic.Name != "topic-1") {
			t.Errorf("topic %s: reused %t", topic.Name, topic == before)
		}
		for i, p := range topic.Partitions {
			changed := topic.Name == "topic-1" && i == 4
			if (p == before.Partitions[i]) == changed {
				t.Errorf("partition %s-%d: reused %t", topic.Name, i, !changed)
			}
		}
	}
	set, _ = partitionset.Decode(c.sets[number], nil)
	entry, _ := set.Get(key)
	state := *entry.State
	state.Serving = false
	set.PutState(key, state)
	c.store(number, set)
	third, _ := cache.image(c.resources(), alive, second)
	if third.Topic("topic-1") != second.Topic("topic-1") {
		t.Error("a report of the leader changed the topic")
	}
}

// TestUnusableEntryKeepsThePartition checks that a partition whose entry can no longer be parsed
// stays in the image, but without a leader that is not alive. If the image is the first one, the
// partition must have no replicas. In both cases the topic must be in the image.
func TestUnusableEntryKeepsThePartition(t *testing.T) {
	c := newCluster(1, 1)
	var cache imageCache
	image, _ := cache.image(c.resources(), aliveBrokers(7, 7, 7), nil)
	broken := c.sets[0].DeepCopy()
	broken.ResourceVersion = "100"
	for key := range broken.Status.Partitions {
		broken.Status.Partitions[key] += " later=1"
	}
	c.sets[0] = broken
	kept, faults := cache.image(c.resources(), aliveBrokers(7, 7, 7), image)
	if len(faults) != 10 || kept.Topics[0] != image.Topics[0] {
		t.Errorf("got %d faults, partitions\n%s", len(faults), describe(kept))
	}
	kept, _ = cache.image(c.resources(), aliveBrokers(8, 7, 0), kept)
	for i, p := range kept.Topics[0].Partitions {
		want := metadata.NoBroker
		if i%3 == 1 {
			want = 1
		}
		if p.Leader != want || p.LeaderEpoch != 1 || len(p.ISR) != 3 {
			t.Errorf("partition %d: got %+v, want leader %d", i, p, want)
		}
	}
	first, _ := new(imageCache).image(c.resources(), aliveBrokers(7, 7, 7), nil)
	if got := first.Topic("topic-0"); got == nil || len(got.Partitions) != 10 ||
		got.Partitions[3].Leader != metadata.NoBroker || got.Partitions[3].Replicas != nil {
		t.Errorf("first image: got topic %+v", got)
	}
}

// BenchmarkImage builds an image of 10,000 partitions, after an election in each of them, after one
// election, and after a change that the image does not contain.
func BenchmarkImage(b *testing.B) {
	for name, changed := range map[string]int{"all": 1000, "one": 1, "none": 0} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(1000, 16)
			var cache imageCache
			alive := aliveBrokers(7, 7, 7)
			last, _ := cache.image(c.resources(), alive, nil)
			epoch := int32(1)
			for b.Loop() {
				b.StopTimer()
				epoch++
				sets := map[int32]*partitionset.Set{}
				for _, topic := range c.topics[:changed] {
					for index := range int32(min(changed, 10)) {
						key := partitionset.Key{Topic: topic.Name, Index: index}
						number := partitionset.Number(key, 16)
						if sets[number] == nil {
							sets[number], _ = partitionset.Decode(c.sets[number], nil)
						}
						c.put(sets[number], key, topic, epoch, []int64{7, 7, 7})
					}
				}
				for number, set := range sets {
					c.store(number, set)
				}
				b.StartTimer()
				next, _ := cache.image(c.resources(), alive, last)
				if reflect.DeepEqual(next, last) != (changed == 0) {
					b.Fatal("wrong image")
				}
				last = next
			}
		})
	}
}
