package kube

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// testAssignment checks that the partition count and the replicas that a Kafka client assigns are
// written to the Topic in one update.
func testAssignment(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	ctx := f.t.Context()
	request := metadata.NewTopic{Name: "orders", Partitions: 2, Replicas: 2,
		Assignment: [][]int32{{2, 0}, {0, 1}}}
	if _, err := b.CreateTopic(ctx, request); err != nil {
		f.t.Fatal(err)
	}
	topic := &v1alpha1.Topic{}
	f.get("orders", topic)
	first := fmt.Sprint(topic.Generation, topic.Spec.Partitions, *topic.Spec.Replicas,
		topic.Spec.InitialReplicas)
	if want := "1 2 2 [{0 [2 0]} {1 [0 1]}]"; first != want {
		f.t.Errorf("got Topic %s, want %s", first, want)
	}
	more := metadata.NewPartitions{Name: "orders", Count: 3, Assignment: [][]int32{{1, 0}}}
	if err := b.CreatePartitions(ctx, more); err != nil {
		f.t.Fatal(err)
	}
	f.get("orders", topic)
	second := fmt.Sprint(topic.Generation, topic.Spec.Partitions, topic.Spec.InitialReplicas)
	if want := "2 3 [{0 [2 0]} {1 [0 1]} {2 [1 0]}]"; second != want {
		f.t.Errorf("got Topic %s, want %s", second, want)
	}
	for _, assigned := range [][]int32{{1, 1}, {0, 3}, {0}, {1, 2}} { // only broker 0 is up
		more.Count, more.Assignment = 4, [][]int32{assigned}
		request.Name, request.Partitions, request.Assignment = "other", 1, more.Assignment
		_, err := b.CreateTopic(ctx, request)
		for _, err := range []error{err, b.CreatePartitions(ctx, more)} {
			if !errors.Is(err, metadata.ErrInvalidAssignment) {
				f.t.Errorf("replicas %v: error %v, want ErrInvalidAssignment", assigned, err)
			}
		}
	}
}

// testDefaultPartitions checks that a number of partitions that a request leaves to the
// LogCluster's default is written to the Topic, so that a later change of the default does not
// affect the topic.
func testDefaultPartitions(f *fixture) {
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	cluster.Spec.TopicDefaults = &v1alpha1.TopicDefaults{Partitions: new(int32(6))}
	if err := f.client.Update(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
	b := f.run(0, f.config)
	b.until("up", up(0))
	await.Until(f.t, "default delivered", func() bool {
		all, err := b.resources(f.t.Context())
		return err == nil && metadata.DefaultPartitions(all.cluster) == 6
	})
	created, err := b.CreateTopic(f.t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: -1, Replicas: -1})
	if err != nil || len(created.Partitions) != 6 {
		f.t.Fatalf("got topic %+v, error %v, want 6 partitions", created, err)
	}
	topic := &v1alpha1.Topic{}
	if f.get("orders", topic); topic.Spec.Partitions != 6 {
		f.t.Errorf("the Topic has %d partitions, want 6", topic.Spec.Partitions)
	}
	// The operator has not set the number of partitions of this Topic.
	unset := &v1alpha1.Topic{}
	unset.Name, unset.Spec.Cluster = "unset", "demo"
	f.create(unset)
	if err := b.CreatePartitions(f.t.Context(), metadata.NewPartitions{Name: "unset",
		Count: 9}); !errors.Is(err, metadata.ErrTopicNotFound) {
		f.t.Errorf("CreatePartitions before the number is set: error %v, want ErrTopicNotFound", err)
	}
}
