//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const (
	// alone is the Topic in testdata/alone.yaml, whose partitions have one replica.
	alone = "alone"
	// maxLendGap is the maximum time for which a partition with one replica can be unavailable for
	// writes during a rolling update with lent replicas.
	maxLendGap = 3 * time.Second
)

// lends restarts all brokers with spec.rollout.singleReplica Move. Partitions with one replica must
// serve during the restarts, and must afterwards have their replicas on the same brokers as before.
func (e *environment) lends(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/alone.yaml")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/alone.yaml", "--timeout=120s")
	e.waitReady(t, 1, topics+1)
	e.patch(t, `{"spec":{"rollout":{"singleReplica":"Move"}}}`)
	before, most := e.assigned(t, alone), int32(0)
	e.stream(t, alone, "keys", "500", "perSecond", "500")
	e.waitAcknowledged(t, alone, 1000)
	watch := e.watchBrokers(t)
	e.restartAll(t)
	for range 2 { // two deadlines: copies, restarts and 30 s per broker
		if e.poll(t, func(ctx context.Context) bool {
			var cluster v1alpha1.LogCluster
			if e.Get(ctx, client.ObjectKey{Name: e.cluster}, &cluster) != nil {
				return false
			}
			most = max(most, cluster.Status.LentReplicas)
			return e.condition(ctx, v1alpha1.ConditionRollingOut).Reason == v1alpha1.ReasonComplete
		}) {
			break
		}
	}
	e.waitRollout(t, v1alpha1.ReasonComplete, "")
	watch.check(t, brokerCount)
	until(t, "lent replicas taken back", func(ctx context.Context) string {
		all, err := e.partitions(ctx, alone)
		if err != nil {
			return err.Error()
		}
		for index, p := range all {
			if !slices.Equal(p.Replicas, before[index]) {
				return fmt.Sprintf("partition %d has replicas %v, and had %v", index, p.Replicas,
					before[index])
			}
		}
		return ""
	})
	e.waitAcknowledged(t, alone, 1000)
	stopped := e.mustCall(t, "POST", "stop", "topic", alone)
	e.measured(t, "partitions with one replica were unavailable for writes for %d ms at most, %d "+
		"replicas were lent at the same time: %s", stopped.Gap, most, stopped.longest())
	if gap := time.Duration(stopped.Gap) * time.Millisecond; gap > maxLendGap || most == 0 {
		t.Errorf("a partition was unavailable for writes for %s; %d replicas were lent", gap, most)
	}
	e.checkAllRecords(t, alone)
	e.patch(t, `{"spec":{"rollout":null}}`)
}

// assigned returns the replicas of each partition of a topic.
func (e *environment) assigned(t *testing.T, topic string) map[int32][]int32 {
	t.Helper()
	all, err := e.partitions(t.Context(), topic)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d partitions, %v", len(all), err)
	}
	replicas := map[int32][]int32{}
	for index, p := range all {
		replicas[index] = p.Replicas
	}
	return replicas
}
