package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/metadata"
)

// admin returns three brokers and an admin client. The brokers have a topic "made" with one
// partition, two replicas and ten records.
func admin(t *testing.T) (*trio, *kadm.Client, context.Context) {
	t.Helper()
	c := newTrio(t)
	ctx, cancel := context.WithTimeout(t.Context(), trioWait)
	t.Cleanup(cancel)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers[0].Addr()),
		kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := c.metadata.AwaitBrokers(ctx, 3); err != nil {
		t.Fatal(err)
	}
	a := kadm.NewClient(client)
	a.SetTimeoutMillis(int32(trioWait.Milliseconds()))
	if _, err := a.CreateTopic(ctx, 1, 2,
		map[string]*string{"min.insync.replicas": kadm.StringPtr("1")}, "made"); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, c.brokers[:], "made")
	for range 10 {
		if err := client.ProduceSync(ctx,
			&kgo.Record{Topic: "made", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c, a, ctx
}

// TestDeletedRecordsAreRemovedFromEveryReplica checks that all replicas have removed the records
// when DeleteRecords responds, because the next leader could otherwise return them.
func TestDeletedRecordsAreRemovedFromEveryReplica(t *testing.T) {
	c, a, ctx := admin(t)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "made", At: 7})
	deleted, err := a.DeleteRecords(ctx, offsets)
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := deleted.Lookup("made", 0); answer.Err != nil || answer.LowWatermark != 7 {
		t.Errorf("DeleteRecords: got %+v, want low watermark 7", answer)
	}
	holders := 0
	for id, b := range c.brokers {
		for _, state := range b.replicas.States() {
			if state.ID.Topic != "made" {
				continue
			}
			holders++
			if state.Log.LogStart() != 7 {
				t.Errorf("broker %d: got log start offset %d, want 7", id, state.Log.LogStart())
			}
		}
	}
	if holders != 2 {
		t.Errorf("got %d brokers with the log, want 2", holders)
	}
}

// TestReassignmentAndPreferredElection reassigns a partition to the broker that has no replica, and
// elects the preferred leader.
func TestReassignmentAndPreferredElection(t *testing.T) {
	c, a, ctx := admin(t)
	before := c.metadata.Image().Topic("made").Partitions[0].Replicas
	target := []int32{3 - before[0] - before[1], before[0]}
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign("made", 0, target)
	answers, err := a.AlterPartitionAssignments(ctx, move)
	if err = errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	// Wait for the metadata store first. A broker responds from its metadata image, which may not
	// contain the reassignment yet.
	made := func() *metadata.Partition { return c.metadata.Image().Topic("made").Partitions[0] }
	c.await("the reassignment to complete",
		func() bool { return slices.Equal(made().Replicas, target) })
	c.await("no reassignment to be listed", func() bool {
		listed, err := a.ListPartitionReassignments(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(listed) == 0
	})
	// A broker rejects the election while its metadata image does not show the preferred leader in the
	// ISR.
	c.await("the preferred leader to be elected", func() bool {
		elected, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica,
			kadm.TopicsSet{"made": {0: {}}})
		if err != nil {
			t.Fatal(err)
		}
		err = elected["made"][0].Err
		if err != nil && !errors.Is(err, kerr.ElectionNotNeeded) &&
			!errors.Is(err, kerr.PreferredLeaderNotAvailable) {
			t.Fatal(err)
		}
		return made().Leader == target[0]
	})
}

// TestTopicConfigsAreAltered checks that AlterConfigs changes topic made, which was created through
// Kafka, but not topic rep, which has a manifest.
func TestTopicConfigsAreAltered(t *testing.T) {
	c, a, ctx := admin(t)
	retention := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms",
		Value: kadm.StringPtr("3600000")}}
	altered, err := a.AlterTopicConfigs(ctx, retention, "made", "rep")
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range altered {
		if answer.Name == "made" && answer.Err != nil || answer.Name == "rep" &&
			!errors.Is(answer.Err, kerr.PolicyViolation) {
			t.Errorf("AlterTopicConfigs of %s: got error %v", answer.Name, answer.Err)
		}
	}
	// Any broker may respond, and its metadata image may be older than that of the broker that changed
	// the topic.
	c.await("the changed setting to be described", func() bool {
		described, err := a.DescribeTopicConfigs(ctx, "made")
		if err != nil || len(described) != 1 {
			t.Fatal(described, err)
		}
		return slices.ContainsFunc(described[0].Configs, func(config kadm.Config) bool {
			return config.Key == "retention.ms" && config.MaybeValue() == "3600000"
		})
	})
	if _, err := a.CreatePartitions(ctx, 2, "made"); err != nil ||
		len(c.metadata.Image().Topic("made").Partitions) != 3 {
		t.Errorf("CreatePartitions: got error %v, or the topic does not have 3 partitions", err)
	}
	dirs, err := a.DescribeAllLogDirs(ctx, nil)
	if err != nil || len(dirs) != 3 {
		t.Errorf("got log directories of %d brokers, error %v, want 3 brokers", len(dirs), err)
	}
}
