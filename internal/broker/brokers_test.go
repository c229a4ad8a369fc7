package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// sync changes the manifests and waits until the broker has applied them. It sets the number of
// cleaner workers and of brokers, and the number of partitions and the clean-now annotation of the
// compacted topic tickets. Topic events has Kafka's defaults.
func (c *cluster) sync(workers int32, brokers int, partitions int32, cleanNow string) {
	c.t.Helper()
	settings := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Spec: v1alpha1.LogClusterSpec{Cleaner: &v1alpha1.Cleaner{Workers: &workers}}}
	tickets := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "tickets"},
		Spec: v1alpha1.TopicSpec{Cluster: "test", Partitions: partitions}}
	tickets.Spec.CleanupPolicy = v1alpha1.CleanupCompact
	tickets.Spec.Compaction = &v1alpha1.Compaction{MinDirtyPercent: v1alpha1.PercentOf(100)}
	if cleanNow != "" {
		tickets.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: cleanNow}
	}
	events := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "events"},
		Spec: v1alpha1.TopicSpec{Cluster: "test", Partitions: 1}}
	if err := c.metadata.Sync(settings, brokers, []*v1alpha1.Topic{events, tickets}); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), await.Limit)
	defer cancel()
	c.await(ctx, func(image *metadata.Image) bool {
		topic := image.Topic("tickets")
		return topic.Settings.Compact && len(topic.Partitions) == int(partitions) &&
			image.Cleaner.Workers == int(workers) && topic.CleanNow == cleanNow
	})
	if ctx.Err() != nil {
		c.t.Fatal("the broker has not applied the manifests")
	}
}

// rowsOf returns the compaction reports for this broker's partitions of topic tickets.
func (c *cluster) rowsOf() (rows []*report.Compaction) {
	for _, row := range (Brokers{c.Broker}).Report() {
		if row.Topic == "tickets" && row.Compaction != nil {
			rows = append(rows, row.Compaction)
		}
	}
	return rows
}

// TestCleanNowListsReplicasElsewhere checks that CleanNow requests passes over the replicas on
// brokers of this process, and lists the replicas on broker 1, which is not in this process.
func TestCleanNowListsReplicasElsewhere(t *testing.T) {
	c := newCluster(t)
	c.start()
	all := Brokers{c.Broker}
	c.sync(1, 1, 2, "")
	client := c.client()
	for round := range 10 {
		c.produce(client, string(rune('a'+round)), 50)
	}
	client.Close()
	// Close the client first; otherwise it would wait for broker 1, which does not run.
	c.sync(1, 2, 4, "")
	answer, err := all.CleanNow("tickets", nil)
	if err != nil || answer.Topic != "tickets" || len(answer.Requests)+len(answer.Elsewhere) != 4 ||
		len(answer.Elsewhere) == 0 {
		t.Fatalf("CleanNow returned %+v, error %v", answer, err)
	}
	for _, other := range answer.Elsewhere {
		if other.Broker != 1 || other.Host != "" {
			t.Errorf("elsewhere lists %+v, want broker 1, which is down, without a host", other)
		}
	}
	await.Until(t, "the requests to be served", func() bool {
		served := 0
		for _, row := range c.rowsOf() {
			served += int(row.CleanNowServed)
		}
		return served == len(answer.Requests)
	})
	for _, row := range c.rowsOf() {
		if row.LastPass.Trigger != "requested" || row.LastPass.Result == "failed" ||
			row.DirtyBytes != 0 {
			t.Errorf(
				"got row %+v with last pass %+v, want a requested pass that left no dirty bytes",
				row,
				row.LastPass,
			)
		}
	}
	one, err := all.CleanNow("tickets", []int32{answer.Requests[0].Partition})
	if err != nil || len(one.Requests) != 1 ||
		one.Requests[0].Partition != answer.Requests[0].Partition || one.Requests[0].Ticket != 2 {
		t.Errorf("CleanNow of one partition: got %+v, error %v", one, err)
	}
}

func TestCleanNowErrors(t *testing.T) {
	if _, err := (Brokers{}).CleanNow("tickets", nil); !errors.Is(err, ErrStarting) {
		t.Errorf("while the brokers start: error %v, want ErrStarting", err)
	}
	c := newCluster(t)
	c.start()
	c.sync(1, 1, 2, "")
	all := Brokers{c.Broker}
	for _, test := range []struct {
		topic      string
		partitions []int32
		want       error
	}{
		{"nothing", nil, ErrUnknownTopic}, {"events", nil, cleaner.ErrNotCompacted},
		{"tickets", []int32{0, 2}, ErrUnknownPartition},
		{"tickets", []int32{-1}, ErrUnknownPartition},
	} {
		if answer, err := all.CleanNow(test.topic, test.partitions); !errors.Is(err, test.want) ||
			len(answer.Requests) != 0 {
			t.Errorf("CleanNow of %s %v: got %+v, error %v", test.topic, test.partitions, answer, err)
		}
	}
	c.sync(0, 1, 2, "")
	if _, err := all.CleanNow("tickets", nil); !errors.Is(err, cleaner.ErrDisabled) {
		t.Errorf("without workers: error %v, want ErrDisabled", err)
	}
}

// TestTopicSummaries checks that the summary contains topics with and without compaction, and the
// outcome of the passes that the annotation has requested.
func TestTopicSummaries(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.sync(1, 1, 2, "monday")
	await.Until(t, "the annotation to be carried out", func() bool {
		topics := (Brokers{c.Broker}).Topics(time.Now()).Topics
		if len(topics) != 2 {
			t.Fatalf("got topics %+v, want 2", topics)
		}
		if topics[0].Topic != "events" || topics[0].Compacted {
			t.Fatalf("got topic %+v, want events, not compacted", topics[0])
		}
		if topics[0].Compaction != nil || topics[0].Compacting != nil {
			t.Fatalf("got %+v, want no compaction of events", topics[0])
		}
		tickets := topics[1]
		if !tickets.Compacted || tickets.Partitions != 2 {
			t.Fatalf("got %+v, want tickets compacted, 2 partitions", tickets)
		}
		if tickets.Compacting == nil || tickets.Compaction == nil {
			t.Fatalf("got %+v, want the compaction of tickets", tickets)
		}
		if tickets.Compaction.CleanNow == nil {
			t.Fatalf("got %+v, want a clean-now pass", tickets.Compaction)
		}
		now := tickets.Compaction.CleanNow
		return now.Value == "monday" && now.State == v1alpha1.CleanNowDone &&
			now.Replicas == "2/2" && tickets.Compacting.Reason == v1alpha1.ReasonUpToDate
	})
	for _, row := range c.rowsOf() {
		if row.CleanNowServed != 1 || row.CleanNow.State != report.CleanNowDone {
			t.Errorf("got row %+v, want a completed clean-now pass", row)
		}
	}
}
