package metadatatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/metadata"
)

// expect checks that err wraps want; if want is nil, it checks that err is nil.
func (c *cluster) expect(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// exists returns a condition that is true for images that contain a topic.
func exists(name string) func(*metadata.Image) bool {
	return func(i *metadata.Image) bool { return i.Topic(name) != nil }
}

func testTopics(c *cluster) {
	b := c.startAll()[0]
	request := metadata.NewTopic{Name: "a", Partitions: 2, Replicas: -1, Validate: true,
		Properties: map[string]string{"cleanup.policy": "compact"}}
	checked, err := b.CreateTopic(c.Context(), request)
	if err != nil || checked.ID != (metadata.ID{}) {
		c.Fatalf("validate: got topic %+v, error %v", checked, err)
	}
	request.Validate = false
	created, err := b.CreateTopic(c.Context(), request)
	if err != nil {
		c.Fatalf("create after validate: %v", err)
	}
	found := b.until("topic a", exists("a")).Topic("a")
	if found.ID != created.ID || len(found.Partitions) != 2 || !found.Settings.Compact ||
		found.RetainData {
		c.Errorf("got topic %+v, want %+v", found, created)
	}
	for what, test := range map[string]struct {
		topic metadata.NewTopic
		want  error
	}{
		"same name": {request, metadata.ErrTopicExists},
		"name": {metadata.NewTopic{Name: "a/b", Partitions: 1, Replicas: 1},
			metadata.ErrInvalidTopicName},
		"no partitions": {metadata.NewTopic{Name: "b", Replicas: 1}, metadata.ErrInvalidPartitions},
		"no replicas": {metadata.NewTopic{Name: "b", Partitions: 1},
			metadata.ErrInvalidReplication},
		"property": {metadata.NewTopic{Name: "b", Partitions: 1, Replicas: 1,
			Properties: map[string]string{"cleanup.policy": "no"}}, metadata.ErrInvalidSettings},
		"unknown broker": {metadata.NewTopic{Name: "b", Partitions: 1, Replicas: 1,
			Assignment: [][]int32{{9}}}, metadata.ErrInvalidAssignment},
	} {
		for _, validate := range []bool{true, false} {
			test.topic.Validate = validate
			_, err := b.CreateTopic(c.Context(), test.topic)
			c.expect(fmt.Sprintf("%s (validate: %t)", what, validate), err, test.want)
		}
	}
	c.expect("delete", b.DeleteTopic(c.Context(), "a"), nil)
	b.until("no topic a", func(i *metadata.Image) bool { return i.Topic("a") == nil })
	c.expect("delete again", b.DeleteTopic(c.Context(), "a"), metadata.ErrTopicNotFound)
	again, err := b.CreateTopic(c.Context(), request)
	if err != nil || again.ID == created.ID {
		c.Errorf("create again: got topic %+v, error %v, want a new id", again, err)
	}
}

// change returns one property change, in a slice.
func change(name string, op metadata.PropertyOp, value string) []metadata.PropertyChange {
	return []metadata.PropertyChange{{Name: name, Op: op, Value: value}}
}

func testAlter(c *cluster) {
	b := c.startAll()[0]
	b.create("a", 1)
	alter := func(change metadata.TopicChange) error {
		return b.AlterTopic(c.Context(), change)
	}
	compact := change("cleanup.policy", metadata.PropertySet, "compact")
	c.expect("validate", alter(metadata.TopicChange{Name: "a", Properties: compact,
		Validate: true}), nil)
	c.expect("one of two is invalid", alter(metadata.TopicChange{Name: "a",
		Properties: append(slices.Clone(compact),
			change("retention.ms", metadata.PropertySet, "no")...)}), metadata.ErrInvalidSettings)
	c.expect("unknown topic", alter(metadata.TopicChange{Name: "b", Properties: compact}),
		metadata.ErrTopicNotFound)
	c.expect("append", alter(metadata.TopicChange{Name: "a",
		Properties: change("cleanup.policy", metadata.PropertyAppend, "compact")}), nil)
	image := b.until("compact", func(i *metadata.Image) bool { return i.Topic("a").Settings.Compact })
	if !image.Topic("a").Settings.Delete {
		c.Error("append has replaced the policy delete")
	}
	c.expect("replace", alter(metadata.TopicChange{Name: "a", Replace: true}), nil)
	b.until("the default policy", func(i *metadata.Image) bool {
		return !i.Topic("a").Settings.Compact
	})
	grow := func(count int32, validate bool) error {
		return b.CreatePartitions(c.Context(), metadata.NewPartitions{Name: "a", Count: count,
			Validate: validate})
	}
	c.expect("validate 3 partitions", grow(3, true), nil)
	c.expect("2 partitions", grow(2, false), nil)
	b.until("2 partitions", func(i *metadata.Image) bool { return len(i.Topic("a").Partitions) == 2 })
	c.expect("fewer partitions", grow(1, false), metadata.ErrInvalidPartitions)
	c.expect("an unknown setting of brokers", b.AlterCluster(c.Context(), metadata.ClusterChange{
		Properties: change("no.such.setting", metadata.PropertySet, "1")}),
		metadata.ErrInvalidProperty)
	c.expect("a setting of brokers", b.AlterCluster(c.Context(), metadata.ClusterChange{
		Properties: change("group.max.size", metadata.PropertySet, "7")}), nil)
	b.until("the setting", func(i *metadata.Image) bool { return i.Groups.MembersMax == 7 })
}

func testMoves(c *cluster) {
	b := c.startAll()[0]
	if _, err := b.CreateTopic(c.Context(), metadata.NewTopic{Name: "a", Partitions: 1, Replicas: 2,
		Assignment: [][]int32{{0, 1}}}); err != nil {
		c.Fatal(err)
	}
	b.untilPartition("a", 0, "a leader", func(p *metadata.Partition) bool { return p.Leader == 0 })
	faults := b.Reassign(c.Context(), []metadata.Move{
		{Topic: "a", Partition: 9, Replicas: []int32{0, 2}},
		{Topic: "b", Replicas: []int32{0, 2}},
		{Topic: "a"},
	})
	for i, want := range []error{metadata.ErrUnknownPartition, metadata.ErrUnknownPartition,
		metadata.ErrNoReassignment} {
		c.expect(fmt.Sprintf("move %d", i), faults[i], want)
	}
	c.expect("unknown broker", b.Reassign(c.Context(),
		[]metadata.Move{{Topic: "a", Replicas: []int32{0, 9}}})[0], metadata.ErrInvalidAssignment)
	c.expect("move", b.Reassign(c.Context(),
		[]metadata.Move{{Topic: "a", Replicas: []int32{0, 2}}})[0], nil)
	moving := func(p *metadata.Partition) bool { return slices.Equal(p.Target, []int32{0, 2}) }
	b.untilPartition("a", 0, "a reassignment", moving)
	c.expect("cancel", b.Reassign(c.Context(), []metadata.Move{{Topic: "a"}})[0], nil)
	b.untilPartition("a", 0, "no reassignment", func(p *metadata.Partition) bool {
		return p.Target == nil && slices.Equal(p.Replicas, []int32{0, 1})
	})
	for i, err := range b.ElectPreferred(c.Context(), []metadata.PartitionRef{{Topic: "a"},
		{Topic: "b"}}) {
		c.expect(fmt.Sprintf("election %d", i), err,
			[]error{metadata.ErrElectionNotNeeded, metadata.ErrUnknownPartition}[i])
	}
}

func testRemoval(c *cluster) {
	b := c.startAll()[0]
	topic := b.create("a", 1)
	for range 2 {
		c.expect("a partition that is not being removed", b.RecordRemoved(c.Context(), 0,
			[]metadata.RetainedPartition{{Topic: "a", Replicas: []int32{0, 1, 2},
				Tag: topic.ID.String()[:8]}, {Topic: "b"}}), nil)
	}
	b.create("b", 1)
	if got := b.last().Topic("a"); got == nil || !got.Partitions[0].Equal(topic.Partitions[0]) {
		c.Errorf("got topic %+v, want %+v", got, topic)
	}
}

func testReopen(c *cluster) {
	b := c.startAll()[0]
	topic := b.create("a", 2)
	c.stop()
	c.world.Reopen(c.TB)
	got := c.start(0).until("topic a", exists("a")).Topic("a")
	if got.ID != topic.ID || len(got.Partitions) != 2 {
		c.Errorf("got topic %+v, want %+v", got, topic)
	}
	for i, p := range got.Partitions {
		if before := topic.Partitions[i]; p.LeaderEpoch < before.LeaderEpoch ||
			!slices.Equal(p.Replicas, before.Replicas) ||
			!slices.Equal(p.ReplicaIncarnations, before.ReplicaIncarnations) {
			c.Errorf("partition %d: got %+v, want one that follows %+v", i, p, before)
		}
	}
}

// testEndedContext checks that a change whose context has ended either fails or is stored.
func testEndedContext(c *cluster) {
	b := c.startAll()[0]
	b.create("a", 1)
	image := b.last()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	if _, err := b.CreateTopic(ended, metadata.NewTopic{Name: "b", Partitions: 1,
		Replicas: 1}); err == nil {
		b.until("topic b", exists("b"))
	}
	var outcome error
	calls := 0
	b.ChangeISR(ended, []metadata.ISRChange{proposal(image, "a", 0, 0)},
		func(_ int, _ int64, err error) { outcome, calls = err, calls+1 })
	if calls != 1 || errors.Is(outcome, metadata.ErrISRConflict) {
		c.Errorf("settled %d times, error %v; want once, with success or an unknown outcome", calls,
			outcome)
	}
	if outcome == nil {
		b.inSync(0)
	}
}

func testConcurrentCallers(c *cluster) {
	all := c.startAll()
	var callers sync.WaitGroup
	const topics = 12
	for i := range topics {
		callers.Go(func() {
			_, err := all[i%Brokers].CreateTopic(c.Context(), metadata.NewTopic{
				Name: fmt.Sprintf("topic-%d", i), Partitions: 1, Replicas: 2})
			c.expect(fmt.Sprintf("topic %d", i), err, nil)
		})
	}
	callers.Wait()
	for _, b := range all {
		b.until("all topics", func(i *metadata.Image) bool { return len(i.Topics) == topics })
	}
}
