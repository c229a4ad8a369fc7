package replica

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
)

func TestApplyReturnsServedPartitions(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("a", 3, func(topic *metadata.Topic) {
		topic.Partitions[1].Replicas, topic.Partitions[1].Leader = []int32{9}, 9
		topic.Partitions[2].Leader = metadata.NoBroker
		topic.Partitions[0].LeaderEpoch = 7
	})
	served := b.apply()
	if want := []metadata.Served{{Topic: topic.ID, Partition: 0,
		LeaderEpoch: 7}}; !slices.Equal(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
	for name, c := range map[string]struct {
		id    PartitionID
		epoch int32
		err   error
	}{
		"leads":                       {id("a", 0), -1, nil},
		"leads, known epoch":          {id("a", 0), 7, nil},
		"old epoch":                   {id("a", 0), 6, ErrFencedLeaderEpoch},
		"later epoch":                 {id("a", 0), 8, ErrUnknownLeaderEpoch},
		"on another broker":           {id("a", 1), -1, ErrNotLeader},
		"without a leader":            {id("a", 2), -1, ErrNotLeader},
		"no such partition":           {id("a", 3), -1, ErrUnknownPartition},
		"negative partition":          {id("a", -1), -1, ErrUnknownPartition},
		"no such topic":               {id("b", 0), -1, ErrUnknownPartition},
		"old epoch, without a leader": {id("a", 2), 0, ErrFencedLeaderEpoch},
	} {
		if _, err := b.Leader(c.id, c.epoch); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// TestFaultyPartitionDoesNotAffectOthers checks that a partition is served although another
// partition cannot be, because its log contains a later leader epoch. The faulty partition's state
// must report the fault.
func TestFaultyPartitionDoesNotAffectOthers(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 2, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 7 })
	b.apply()
	b.topic("a", 2, nil)
	served, err := b.tryApply()
	if !errors.Is(err, ErrFencedLeaderEpoch) || len(served) != 2 || !served[0].Ahead ||
		served[1].Ahead {
		t.Errorf("served %v, %v", served, err)
	}
	if _, err := b.Leader(id("a", 0), -1); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("leader: %v", err)
	}
	b.mustProduce(id("a", 1), "x")
	states := b.States()
	if len(states) != 2 {
		t.Fatalf("states %+v, want 2", states)
	}
	if states[0].Fault == nil || states[0].Leader {
		t.Errorf("state %+v, want a fault", states[0])
	}
	if states[1].Fault != nil || !states[1].Leader {
		t.Errorf("state %+v, want a leader without a fault", states[1])
	}
}

func TestApplyConfiguresLogs(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	b.topic("a", 1, func(topic *metadata.Topic) {
		topic.Settings.Compact, topic.Settings.SegmentBytes, topic.RetainData = true, 4096, true
	})
	b.apply()
	log, err := b.Leader(id("a", 0), -1)
	if err != nil {
		t.Fatal(err)
	}
	if s := log.Settings(); !s.Compact || s.SegmentBytes != 4096 || !log.Retain() {
		t.Errorf("settings %+v, retain %v", s, log.Retain())
	}
}

// TestBatchesCarryTheLeaderEpoch checks that each batch in the log contains the leader epoch in
// which it was appended, in the field partitionLeaderEpoch.
func TestBatchesCarryTheLeaderEpoch(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "x")
	b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 5 })
	b.apply()
	b.mustProduce(id("a", 0), "y")
	log, err := b.Leader(id("a", 0), 5)
	if err != nil {
		t.Fatal(err)
	}
	if first, second := log.EpochAt(0), log.EpochAt(1); first != 1 || second != 5 {
		t.Errorf("epochs %d and %d, want 1 and 5", first, second)
	}
}

// TestRestartKeepsRecordsAndHighWatermark checks that a restarted broker serves the records below
// the high watermark once it has applied the first image. Before that, the partition is unknown.
func TestRestartKeepsRecordsAndHighWatermark(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "x", "y")
	b.stop()
	b.start()
	if _, err := b.Leader(id("a", 0), -1); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("before the first image: %v", err)
	}
	b.topics["a"].Partitions[0].LeaderEpoch++
	b.apply()
	if got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0]); !slices.Equal(got,
		[]string{"x", "y"}) {
		t.Errorf("got records %v", got)
	}
}

// TestDeletedTopicsObeyTheirReclaimPolicy checks that the reclaim policy of a deleted topic
// applies, whether the topic is deleted while the broker runs or while it is down. In the second
// case only the log contains the policy.
func TestDeletedTopicsObeyTheirReclaimPolicy(t *testing.T) {
	for _, down := range []bool{false, true} {
		for _, retain := range []bool{false, true} {
			b := newBroker(t)
			b.topic("a", 1, func(topic *metadata.Topic) { topic.RetainData = retain })
			b.topic("other", 1, nil)
			b.apply()
			b.mustProduce(id("a", 0), "x")
			delete(b.topics, "a")
			if down {
				b.stop()
				b.start()
			}
			b.apply()
			if _, err := b.Leader(id("a", 0), -1); !errors.Is(err, ErrUnknownPartition) {
				t.Errorf("deleted topic: %v", err)
			}
			if b.store.Log(id("a", 0)) != nil || b.store.Log(id("other", 0)) == nil {
				t.Error("got the deleted topic's log on the disk, or no log of the other topic")
			}
			// A new topic with the same name has another id. It adopts the old topic's log if the log was
			// retained.
			b.topic("a", 1, nil)
			b.apply()
			got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0])
			if (len(got) == 1) != retain {
				t.Errorf("down %v, retain %v: the new topic contains %v", down, retain, got)
			}
		}
	}
}

// TestLogOfAnUnresolvedTopicIsKept checks a topic whose settings became invalid while the broker
// was down. The broker must keep the topic's log, and serve it once the settings are valid.
func TestLogOfAnUnresolvedTopicIsKept(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("a", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "x")
	b.stop()
	b.start()
	image := metadata.NewImage(b.cluster, metadata.CleanerBudget{}, nil, nil)
	image.Unresolved = []metadata.ID{topic.ID}
	if _, err := b.Apply(image); err != nil {
		t.Fatal(err)
	}
	topic.Partitions[0].LeaderEpoch++ // as after a restart of the broker
	b.apply()
	if got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0]); len(got) != 1 {
		t.Errorf("the topic contains %v, want one record", got)
	}
}

// TestLogsOfAnotherClusterAreRetained checks that a broker that joins another cluster retains the
// logs of its former cluster, whatever their reclaim policy: a topic that is missing in the new
// cluster's metadata was not necessarily deleted. Afterwards the logs belong to the new cluster,
// whose reclaim policy then applies to them.
func TestLogsOfAnotherClusterAreRetained(t *testing.T) {
	b := newBroker(t)
	for _, name := range []string{"a", "b"} {
		b.topic(name, 1, nil)
	}
	b.apply()
	b.mustProduce(id("a", 0), "x")
	b.stop()
	b.start()
	b.cluster, b.topics = "another", map[string]*metadata.Topic{}
	b.topic("c", 1, nil)
	b.apply()
	if b.Cluster() != "another" || b.store.Log(id("a", 0)) != nil {
		t.Errorf("the logs belong to cluster %q, and log a-0 is %v", b.Cluster(),
			b.store.Log(id("a", 0)))
	}
	b.topic("a", 1, nil)
	b.apply()
	if got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0]); !slices.Equal(got,
		[]string{"x"}) {
		t.Errorf("read %v from the retained log", got)
	}
	delete(b.topics, "a")
	b.apply()
	b.topic("a", 1, nil)
	b.apply()
	if got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0]); len(got) != 0 {
		t.Errorf("read %v from the log that this cluster deleted", got)
	}
}

// TestTopicIsRecreatedBetweenTwoImages applies an image that contains a topic, and then an image
// that contains a new topic with the same name.
func TestTopicIsRecreatedBetweenTwoImages(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "old")
	delete(b.topics, "a")
	b.topic("a", 1, nil)
	b.apply()
	b.mustProduce(id("a", 0), "new")
	if got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0]); !slices.Equal(got,
		[]string{"new"}) {
		t.Errorf("got records %v", got)
	}
}

// TestReassignedPartitionIsReleased checks that a broker that is no longer a replica deletes its
// records if the image shows that another broker leads the partition. The broker must retain the
// records if the partition has no leader, or if the metadata have lost the leader epochs that this
// log contains.
func TestReassignedPartitionIsReleased(t *testing.T) {
	for name, c := range map[string]struct {
		to       metadata.Partition
		retained bool
	}{
		"another leader": {metadata.Partition{Replicas: []int32{9}, Leader: 9,
			ISR: []int32{9}, LeaderEpoch: 2}, false},
		"no leader": {metadata.Partition{Replicas: []int32{9},
			Leader: metadata.NoBroker, LeaderEpoch: 2}, true},
		"leader epochs were lost": {metadata.Partition{Replicas: []int32{9}, Leader: 9,
			ISR: []int32{9}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			b.topic("a", 1, nil)
			b.apply()
			b.mustProduce(id("a", 0), "x")
			b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0] = &c.to })
			b.apply()
			if r := b.produce(id("a", 0), "y"); !errors.Is(r.Err, ErrNotLeader) {
				t.Errorf("produce after the reassignment: %v", r.Err)
			}
			b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 3 })
			b.apply()
			got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0])
			if retained := slices.Equal(got, []string{"x"}); retained != c.retained {
				t.Errorf("after the return: got %v, want the record: %t", got, c.retained)
			}
		})
	}
}

// TestFirstImageMayPrecedeTheAssignment checks what happens to a log if the first image after a
// start does not assign its partition to this broker. If the image shows the log's leader epoch, it
// may be older than the assignment: the log must be kept, and a later image must be able to assign
// it. If the image shows a later leader epoch, the log must be deleted.
func TestFirstImageMayPrecedeTheAssignment(t *testing.T) {
	for epoch, kept := range map[int32]bool{1: true, 2: false} {
		b := newBroker(t)
		b.topic("a", 1, nil)
		b.apply()
		b.mustProduce(id("a", 0), "x")
		b.stop()
		b.start()
		b.topic("a", 1, func(topic *metadata.Topic) {
			topic.Partitions[0] = &metadata.Partition{Replicas: []int32{9}, Leader: 9,
				ISR: []int32{9}, LeaderEpoch: epoch}
		})
		b.apply()
		if _, err := b.Leader(id("a", 0), -1); err == nil {
			t.Errorf("epoch %d: the partition is served without an assignment", epoch)
		}
		b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 3 })
		b.apply()
		got := values(t, b.Fetch(t.Context(), fetch(0, 0, id("a", 0)))[0])
		if slices.Equal(got, []string{"x"}) != kept {
			t.Errorf("epoch %d: got %v, want the record: %t", epoch, got, kept)
		}
	}
}

func TestStatesReportUnderReplication(t *testing.T) {
	b := newBroker(t)
	b.topic("a", 2, func(topic *metadata.Topic) {
		topic.Settings.MinInSyncReplicas = 2
		topic.Partitions[0].Replicas = []int32{self, 2, 3}
		topic.Partitions[1].Replicas, topic.Partitions[1].ISR = []int32{self, 2}, []int32{self, 2}
	})
	b.apply()
	states := b.States()
	if !states[0].UnderReplicated || !states[0].UnderMinISR {
		t.Errorf("ISR of 1 of 3, minimum 2: %+v", states[0])
	}
	if states[1].UnderReplicated || states[1].UnderMinISR {
		t.Errorf("ISR of 2 of 2, minimum 2: %+v", states[1])
	}
}

// TestAddedReplicasAreNotUnderReplication checks that replicas added by a reassignment do not make
// the partition under-replicated while they are being copied (KIP-352). Copying a large partition
// can take a long time.
func TestAddedReplicasAreNotUnderReplication(t *testing.T) {
	for name, test := range map[string]struct {
		isr  []int32
		want bool
	}{
		"the new replica copies":               {[]int32{self, 2}, false},
		"all are in sync":                      {[]int32{self, 2, 3}, false},
		"a former one is missing":              {[]int32{self}, true},
		"a former one is missing, not the new": {[]int32{self, 3}, true},
	} {
		b := newBroker(t)
		b.topic("a", 1, func(topic *metadata.Topic) {
			p := topic.Partitions[0]
			p.Replicas, p.Target, p.ISR = []int32{self, 2, 3}, []int32{self, 3}, test.isr
		})
		b.apply()
		if got := b.States()[0].UnderReplicated; got != test.want {
			t.Errorf("%s: under-replicated %t, want %t", name, got, test.want)
		}
	}
}

// TestLogWithLaterEpochIsNotServed checks that a partition is not served if the image's leader
// epoch is below the log's, because the metadata have lost leader epochs. Otherwise other records
// could be appended in a leader epoch that the log already contains.
func TestLogWithLaterEpochIsNotServed(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 7 })
	b.apply()
	b.mustProduce(id("a", 0), "x")
	b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 1 })
	served, err := b.tryApply()
	if want := []metadata.Served{{Topic: topic.ID, LeaderEpoch: 7,
		Ahead: true}}; !slices.Equal(served, want) || !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("served %v, want %v; %v", served, want, err)
	}
	if _, err := b.Leader(id("a", 0), -1); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("leader: %v", err)
	}
	b.topic("a", 1, func(topic *metadata.Topic) { topic.Partitions[0].LeaderEpoch = 8 })
	if want, served := []metadata.Served{{Topic: topic.ID, LeaderEpoch: 8}},
		b.apply(); !slices.Equal(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
}
