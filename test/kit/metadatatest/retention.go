package metadatatest

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// manifest returns a Topic with two partitions on brokers 0 and 1.
func manifest(name string, policy v1alpha1.ReclaimPolicy) *v1alpha1.Topic {
	t := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Partitions: 2, ReclaimPolicy: policy,
		InitialReplicas: []v1alpha1.InitialReplicas{{Partition: 0, Replicas: []int32{0, 1}},
			{Partition: 1, Replicas: []int32{1, 0}}}}}
	t.Name, t.Spec.Replicas = name, new(int32(2))
	return t
}

// retained creates topics with both reclaim policies and deletes them. It waits until the
// partitions of the topic with policy Retain are retained. It returns this topic in its state
// before the deletion.
func (c *cluster) retained(b *broker) (kept *metadata.Topic, image *metadata.Image) {
	c.Helper()
	c.world.Apply(c.TB, manifest("kept", v1alpha1.ReclaimRetain),
		manifest("removed", v1alpha1.ReclaimDelete))
	image = b.until("leaders", func(i *metadata.Image) bool {
		return leads(i.Topic("kept"), 0, 1) && leads(i.Topic("removed"), 0, 1)
	})
	kept = image.Topic("kept")
	if !kept.RetainData || image.Topic("removed").RetainData {
		c.Errorf("RetainData is %t and %t, want it for policy Retain only", kept.RetainData,
			image.Topic("removed").RetainData)
	}
	c.world.Apply(c.TB)
	image = b.until("deleted topics", func(i *metadata.Image) bool {
		return len(i.Topics) == 0 && len(i.Retained) == 2
	})
	return kept, image
}

// leads reports whether the given brokers lead the topic's partitions. The topic can be nil.
func leads(t *metadata.Topic, leaders ...int32) bool {
	return t != nil && len(t.Partitions) == len(leaders) && !slices.ContainsFunc(t.Partitions,
		func(p *metadata.Partition) bool { return p.Leader != leaders[p.Index] })
}

// testRetention checks that deleting a topic with policy Retain retains its partitions, with their
// brokers, leader epochs and the topic's tag. A later topic with the same name has another id, and
// continues on these brokers in later leader epochs.
func testRetention(c *cluster) {
	b := c.startAll()[0]
	kept, image := c.retained(b)
	for i, p := range image.Retained {
		before := kept.Partitions[i]
		if p.Topic != "kept" || p.Partition != int32(i) {
			c.Errorf("retained: got %+v, want partition %d of topic kept", p, i)
		}
		if !slices.Equal(p.Replicas, before.Replicas) || p.LeaderEpoch < before.LeaderEpoch {
			c.Errorf("retained: got %+v, want the replicas and leader epoch of %+v", p, before)
		}
		if tag := partitionset.Tag(kept.ID); p.Tag != tag || p.Removing {
			c.Errorf("retained: got %+v, want tag %s, and no removal", p, tag)
		}
	}
	c.world.Apply(c.TB, manifest("kept", v1alpha1.ReclaimRetain))
	image = b.until("the topic again", func(i *metadata.Image) bool {
		return leads(i.Topic("kept"), 0, 1) && len(i.Retained) == 0
	})
	again := image.Topic("kept")
	if again.ID == kept.ID {
		c.Error("the topic has the id of the deleted topic")
	}
	for i, p := range again.Partitions {
		if before := kept.Partitions[i]; !slices.Equal(p.Replicas, before.Replicas) ||
			p.LeaderEpoch <= before.LeaderEpoch {
			c.Errorf("got partition %+v, want one that follows %+v", p, before)
		}
	}
}

// testRemovalOfRetained checks that records that were given up are listed as Removing until each
// broker that has them has recorded their removal.
func testRemovalOfRetained(c *cluster) {
	brokers := c.startAll()
	b := brokers[0]
	_, image := c.retained(b)
	c.world.GiveUp(c.TB, image.Retained[0])
	removing := func(replicas ...int32) []metadata.RetainedPartition {
		c.Helper()
		return b.until("removing", func(i *metadata.Image) bool {
			return len(i.Retained) == 2 && !slices.ContainsFunc(i.Retained,
				func(p metadata.RetainedPartition) bool {
					return !p.Removing || !slices.Equal(slices.Sorted(slices.Values(p.Replicas)), replicas)
				})
		}).Retained
	}
	all := removing(0, 1)
	others := slices.Clone(all)
	for i := range others {
		others[i].Tag = "another1"
	}
	c.expect("another topic", b.RecordRemoved(c.Context(), 0, others), nil)
	removing(0, 1)
	for range 2 {
		c.expect("removed from broker 1", brokers[1].RecordRemoved(c.Context(), 1, all), nil)
		removing(0)
	}
	c.expect("removed from broker 0", b.RecordRemoved(c.Context(), 0, all[:1]), nil)
	b.until("one removed", func(i *metadata.Image) bool {
		return len(i.Retained) == 1 && i.Retained[0].Partition == 1
	})
	c.expect("removed from broker 0", b.RecordRemoved(c.Context(), 0, all), nil)
	b.until("all removed", func(i *metadata.Image) bool { return len(i.Retained) == 0 })
}
