//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// replicasMove changes where replicas are, and how many there are, in every way that there is,
// under load.
func (w *world) replicasMove(t *testing.T) {
	for _, way := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"a partition is edited", func(t *testing.T) {
			wanted := w.rotated(t, 0)
			w.kubectl(t, "patch", "partition", v1alpha1.PartitionName(failover, 0), "--type=merge",
				"-p",
				fmt.Sprintf(`{"spec":{"replicas":%s}}`, list(wanted)))
			w.waitReplicas(t, 0, wanted)
		}},
		{"a partition has fewer replicas, and more", func(t *testing.T) {
			name, whole := v1alpha1.PartitionName(failover, 1), w.rotated(t, 1)
			for _, wanted := range [][]int32{whole[:2], whole} {
				w.kubectl(t, "patch", "topic", failover, "--type=merge", "-p",
					fmt.Sprintf(`{"spec":{"replicas":%d}}`, len(wanted)))
				until(t, "the topic's replicas are as many", func(ctx context.Context) string {
					var p v1alpha1.Partition
					if err := w.Get(ctx, client.ObjectKey{Name: name}, &p); err != nil {
						return err.Error()
					}
					if len(p.Status.Replicas) != len(wanted) || len(p.Status.ISR) != len(wanted) {
						return fmt.Sprintf("replicas %v, ISR %v", p.Status.Replicas, p.Status.ISR)
					}
					return ""
				})
				w.waitInSync(t)
			}
		}},
		{"Kafka's admin client moves a partition, and has it led at home", func(t *testing.T) {
			wanted := w.rotated(t, 2)
			w.mustAsk(t, "POST", "move", "topic", failover, "partition", "2", "replicas",
				strings.Trim(list(wanted), "[]"))
			w.waitReplicas(t, 2, wanted)
			until(t, "Kafka's admin client sees no move", func(ctx context.Context) string {
				answer, err := w.ask(ctx, "GET", "moving", url.Values{"topic": {failover}})
				if err != nil || answer.Moving > 0 {
					return fmt.Sprintf("%d partitions move, %v", answer.Moving, err)
				}
				return ""
			})
			if w.leads(t, failover)[2] == wanted[0] {
				t.Logf("broker %d leads already", wanted[0])
				return
			}
			w.mustAsk(t, "POST", "elect", "topic", failover, "partition", "2")
			until(t, "the preferred leader leads", func(context.Context) string {
				if leader := w.leads(t, failover)[2]; leader != wanted[0] {
					return fmt.Sprintf("broker %d leads", leader)
				}
				return ""
			})
		}},
	} {
		t.Run(way.name, func(t *testing.T) { w.underLoad(t, way.do) })
	}
}

// rotated are a partition's replicas, with another one first.
func (w *world) rotated(t *testing.T, index int32) []int32 {
	t.Helper()
	var p v1alpha1.Partition
	if err := w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.PartitionName(failover, index)},
		&p); err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(p.Spec.Replicas[1:]), p.Spec.Replicas[0])
}

func list(ids []int32) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.Itoa(int(id)))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

func (w *world) waitReplicas(t *testing.T, index int32, wanted []int32) {
	t.Helper()
	until(t, fmt.Sprintf("the replicas of partition %d are %v", index, wanted),
		func(ctx context.Context) string {
			var p v1alpha1.Partition
			if err := w.Get(ctx, client.ObjectKey{Name: v1alpha1.PartitionName(failover, index)},
				&p); err != nil {
				return err.Error()
			}
			if !slices.Equal(p.Status.Replicas, wanted) || len(p.Status.ISR) < len(wanted) {
				return fmt.Sprintf("they are %v, the ISR %v", p.Status.Replicas, p.Status.ISR)
			}
			return ""
		})
}

// scales takes a broker away under load and brings it back. Replicas that do not fit keep it, and a
// condition says so.
func (w *world) scales(t *testing.T) {
	w.underLoad(t, func(t *testing.T) {
		w.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
			`{"spec":{"brokers":2,"topicDefaults":{"replicas":2}}}`)
		w.waitScaled(t, v1alpha1.ReasonReplicasDoNotFit)
		if pods, err := w.pods(t.Context(), brokers); err != nil || len(pods) != brokerCount {
			t.Fatalf("%d brokers run, %v", len(pods), err)
		}
		t.Logf("replicas do not fit:\n%s", w.kubectl(t, "describe", "logcluster", logCluster))
		w.kubectl(t, "patch", "topic", failover, "--type=merge", "-p", `{"spec":{"replicas":2}}`)
		w.waitScaled(t, v1alpha1.ReasonScaled)
		until(t, "two brokers run", func(ctx context.Context) string {
			if pods, err := w.pods(ctx, brokers); err != nil || len(pods) != brokerCount-1 {
				return fmt.Sprintf("%d brokers run, %v", len(pods), err)
			}
			return ""
		})
		t.Logf("scaled down:\n%s", w.kubectl(t, "get", "logclusters,topics,partitions"))
		w.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
			`{"spec":{"brokers":3,"topicDefaults":{"replicas":3}}}`)
		w.kubectl(t, "patch", "topic", failover, "--type=merge", "-p", `{"spec":{"replicas":3}}`)
		w.waitScaled(t, v1alpha1.ReasonScaled)
		w.waitReady(t, 1, topics)
	})
}

// waitScaled waits until condition Scaled of the present generation has a reason.
func (w *world) waitScaled(t *testing.T, reason string) {
	t.Helper()
	until(t, "condition Scaled says "+reason, func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := w.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster); err != nil {
			return err.Error()
		}
		scaled := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionScaled)
		if scaled == nil || scaled.ObservedGeneration != cluster.Generation ||
			scaled.Reason != reason {
			return fmt.Sprintf("generation %d: %+v", cluster.Generation, scaled)
		}
		return ""
	})
}

// racks reads a topic as a consumer in the rack of each broker: batches come from that broker,
// which follows most of the partitions.
func (w *world) racks(t *testing.T) {
	for id := range int32(brokerCount) {
		var lease coordinationv1.Lease
		if err := w.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, &lease); err != nil {
			t.Fatal(err)
		}
		rack := lease.Annotations[v1alpha1.AnnotationRack]
		if rack == "" {
			t.Skipf("broker %d is in no rack: this cluster's nodes have no label %s", id,
				"topology.kubernetes.io/zone")
		}
		answer := w.mustAsk(t, "GET", "nearest", "topic", failover, "rack", rack)
		t.Logf("MEASURED rack %s: %d records, batches by broker %v", rack, answer.Held,
			answer.Sources)
		for broker, batches := range answer.Sources {
			if broker != id && batches > answer.Sources[id] {
				t.Errorf(
					"a consumer in rack %s read %d batches from broker %d, and %d from broker %d, which is there",
					rack,
					batches,
					broker,
					answer.Sources[id],
					id,
				)
			}
		}
	}
}
