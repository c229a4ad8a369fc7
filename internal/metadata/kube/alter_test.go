package kube

import (
	"errors"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// testTopicsAltered: Kafka's clients change what a Topic says, whoever made it, and nothing that
// they did not name.
func testTopicsAltered(w *world) {
	b := w.run(0, w.config)
	b.until("it is up", up(0))
	w.topic("orders", 1)
	b.until("the topic is seen", func(i *metadata.Image) bool { return i.Topic("orders") != nil })
	ctx := w.t.Context()
	set := func(name, value string) metadata.TopicChange {
		return metadata.TopicChange{Name: "orders",
			Properties: []metadata.PropertyChange{{Name: name, Value: value}}}
	}
	check := set("retention.ms", "1000")
	check.Validate = true
	before, topic := &v1alpha1.Topic{}, &v1alpha1.Topic{}
	w.get("orders", before)
	if err := b.AlterTopic(ctx, check); err != nil {
		w.t.Error(err)
	}
	if w.get("orders", topic); topic.ResourceVersion != before.ResourceVersion {
		w.t.Error("a check changed the resource")
	}
	// Two changes at once: each is made on what the other has written.
	if err := errors.Join(b.AlterTopic(ctx, set("retention.ms", "1000")),
		b.AlterTopic(ctx, set("segment.jitter.ms", "2000")),
		b.CreatePartitions(ctx, metadata.NewPartitions{Name: "orders", Count: 3})); err != nil {
		w.t.Fatal(err)
	}
	w.get("orders", topic)
	if topic.Spec.Retention.Time.Seconds() != 1 || topic.Spec.Segment.Jitter.Seconds() != 2 ||
		topic.Spec.Partitions != 3 || topic.UID != before.UID {
		w.t.Errorf("the resource is %+v", topic.Spec)
	}
	for _, test := range []struct{ err, want error }{
		{b.AlterTopic(ctx, metadata.TopicChange{Name: "never"}), metadata.ErrTopicNotFound},
		{b.AlterTopic(ctx, set("no.such", "1")), metadata.ErrInvalidSettings},
		{b.CreatePartitions(ctx, metadata.NewPartitions{Name: "orders", Count: 3}),
			metadata.ErrInvalidPartitions},
	} {
		if !errors.Is(test.err, test.want) {
			w.t.Errorf("%v, want %v", test.err, test.want)
		}
	}
	// What our own checks let through, the API server's rules do not.
	if err := b.AlterTopic(ctx, set("max.message.bytes", "0")); !errors.Is(err,
		metadata.ErrInvalidSettings) || !strings.Contains(err.Error(), "spec.maxMessageSize") {
		w.t.Errorf("what the CRD refuses: %v", err)
	}
}

// testMoves: where a partition is to be is spec.replicas, and an annotation asks for its preferred
// leader.
func testMoves(w *world) {
	b := w.run(0, w.config)
	b.until("it is up", up(0))
	w.topic("orders", 1)
	b.until("the partition is seen", func(i *metadata.Image) bool {
		return i.Topic("orders") != nil && len(i.Topic("orders").Partitions) == 1
	})
	ctx := w.t.Context()
	partition := &v1alpha1.Partition{}
	w.get("orders-0", partition)
	home := partition.Spec.Replicas[0]
	ref := []metadata.PartitionRef{{Topic: "orders"}, {Topic: "never"},
		{Topic: "orders", Partition: 1}}
	faults := b.ElectPreferred(ctx, ref)
	if !errors.Is(faults[0], metadata.ErrPreferredUnavailable) ||
		!errors.Is(faults[1], metadata.ErrUnknownPartition) ||
		!errors.Is(faults[2], metadata.ErrUnknownPartition) {
		w.t.Errorf("nobody is in sync: %v", faults)
	}
	faults = b.Reassign(ctx, []metadata.Move{{Topic: "orders", Replicas: []int32{home, home + 1}},
		{Topic: "orders", Replicas: []int32{99}}, {Topic: "orders"}})
	if !errors.Is(faults[0], metadata.ErrInvalidAssignment) ||
		!errors.Is(faults[1], metadata.ErrInvalidAssignment) ||
		!errors.Is(faults[2], metadata.ErrNoReassignment) {
		w.t.Errorf("moves that cannot be: %v", faults)
	}
	if err := b.Reassign(ctx, []metadata.Move{{Topic: "orders",
		Replicas: []int32{1 - home}}})[0]; err != nil {
		w.t.Fatal(err)
	}
	if w.get("orders-0", partition); partition.Spec.Replicas[0] != 1-home {
		w.t.Errorf("spec.replicas is %v", partition.Spec.Replicas)
	}
}
