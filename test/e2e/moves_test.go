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

// reassign changes the replicas of partitions and the number of replicas in every supported way,
// under load.
func (e *environment) reassign(t *testing.T) {
	for _, method := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"annotate the Topic", func(t *testing.T) {
			target := e.rotated(t, 0)
			e.kubectl(t, "annotate", "topic", failover,
				v1alpha1.AnnotationReassign+"=0="+list(target))
			e.waitReplicas(t, 0, target)
		}},
		{"change the number of replicas", func(t *testing.T) {
			full := e.rotated(t, 1)
			for _, target := range [][]int32{full[:2], full} {
				e.kubectl(t, "patch", "topic", failover, "--type=merge", "-p",
					fmt.Sprintf(`{"spec":{"replicas":%d}}`, len(target)))
				until(t, "number of replicas changed", func(ctx context.Context) string {
					all, err := e.partitions(ctx, failover)
					p := all[1]
					if err != nil || len(p.Replicas) != len(target) || len(p.ISR) != len(target) {
						return fmt.Sprintf("replicas %v, ISR %v, %v", p.Replicas, p.ISR, err)
					}
					return ""
				})
				e.waitInSync(t)
			}
		}},
		{"reassign and elect the preferred leader through Kafka", func(t *testing.T) {
			target := e.rotated(t, 2)
			e.mustCall(t, "POST", "reassign", "topic", failover, "partition", "2", "replicas",
				list(target))
			e.waitReplicas(t, 2, target)
			until(t, "reassignment completed, as Kafka's admin client reports it",
				func(ctx context.Context) string {
					answer, err := e.call(ctx, "GET", "reassigning",
						url.Values{"topic": {failover}})
					if err != nil || answer.Reassigning > 0 {
						return fmt.Sprintf("%d partitions are being reassigned, %v",
							answer.Reassigning,
							err)
					}
					return ""
				})
			// The operator can elect the preferred leader at the same time.
			if _, err := e.call(t.Context(), "POST", "elect", url.Values{"topic": {failover},
				"partition": {"2"}}); err != nil &&
				!strings.Contains(err.Error(), "ELECTION_NOT_NEEDED") {
				t.Fatal(err)
			}
			until(t, "preferred leader leads", func(context.Context) string {
				if leader := e.leads(t, failover)[2]; leader != target[0] {
					return fmt.Sprintf("broker %d is the leader", leader)
				}
				return ""
			})
		}},
	} {
		t.Run(method.name, func(t *testing.T) { e.underLoad(t, method.do) })
	}
}

// rotated returns a partition's replicas in another order, with another broker as the preferred
// leader.
func (e *environment) rotated(t *testing.T, index int32) []int32 {
	t.Helper()
	assigned := e.partition(t, failover, index).Target
	return append(slices.Clone(assigned[1:]), assigned[0])
}

// list returns the ids in the notation of Kafka's clients and of Topics' annotations, such as
// "2,0,1".
func list(ids []int32) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, strconv.Itoa(int(id)))
	}
	return strings.Join(texts, ",")
}

func (e *environment) waitReplicas(t *testing.T, index int32, target []int32) {
	t.Helper()
	until(t, fmt.Sprintf("replicas of partition %d are %v", index, target),
		func(ctx context.Context) string {
			all, err := e.partitions(ctx, failover)
			p := all[index]
			if err != nil || !slices.Equal(p.Replicas, target) || len(p.ISR) < len(target) {
				return fmt.Sprintf("replicas %v, ISR %v, %v", p.Replicas, p.ISR, err)
			}
			return ""
		})
}

// scale scales the LogCluster down and up under load. If the remaining brokers cannot hold all
// replicas, a condition must report this, and no broker must be removed.
func (e *environment) scale(t *testing.T) {
	e.underLoad(t, func(t *testing.T) {
		e.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
			`{"spec":{"brokers":2,"topicDefaults":{"replicas":2}}}`)
		e.waitScaled(t, v1alpha1.ReasonReplicasDoNotFit)
		if pods, err := e.pods(t.Context(), brokers); err != nil || len(pods) != brokerCount {
			t.Fatalf("%d brokers are running, %v", len(pods), err)
		}
		t.Logf("with ReplicasDoNotFit:\n%s", e.kubectl(t, "describe", "logcluster", logCluster))
		lowered := e.topicsOfThreeReplicas(t)
		e.patchReplicas(t, lowered, 2)
		e.waitScaled(t, v1alpha1.ReasonScaled)
		until(t, "two brokers running", func(ctx context.Context) string {
			if pods, err := e.pods(ctx, brokers); err != nil || len(pods) != brokerCount-1 {
				return fmt.Sprintf("%d brokers are running, %v", len(pods), err)
			}
			return ""
		})
		t.Logf("scaled down:\n%s", e.kubectl(t, "get", "logclusters,topics,partitionsets"))
		e.kubectl(t, "patch", "logcluster", logCluster, "--type=merge", "-p",
			`{"spec":{"brokers":3,"topicDefaults":{"replicas":3}}}`)
		e.patchReplicas(t, lowered, 3)
		e.waitScaled(t, v1alpha1.ReasonScaled)
		e.waitReady(t, 1, topics)
	})
}

// topicsOfThreeReplicas returns the names of the Topics that prevent the LogCluster from losing a
// broker: the topic under load, and __consumer_offsets if an earlier step used a group.
func (e *environment) topicsOfThreeReplicas(t *testing.T) []string {
	t.Helper()
	var all v1alpha1.TopicList
	if err := e.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, topic := range all.Items {
		if topic.Spec.Replicas != nil && *topic.Spec.Replicas == brokerCount {
			names = append(names, topic.Name)
		}
	}
	return names
}

func (e *environment) patchReplicas(t *testing.T, topics []string, replicas int) {
	t.Helper()
	for _, topic := range topics {
		e.kubectl(t, "patch", "topic", topic, "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
}

// waitScaled waits until condition Scaled has the given reason for the LogCluster's current
// generation.
func (e *environment) waitScaled(t *testing.T, reason string) {
	t.Helper()
	until(t, "condition Scaled has reason "+reason, func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster); err != nil {
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

// racks reads a topic as a consumer in each broker's rack. The broker in this rack must send the
// batches, although it is a follower for most partitions.
func (e *environment) racks(t *testing.T) {
	for id := range int32(brokerCount) {
		var lease coordinationv1.Lease
		if err := e.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, &lease); err != nil {
			t.Fatal(err)
		}
		rack := lease.Annotations[v1alpha1.AnnotationRack]
		if rack == "" {
			t.Skipf("broker %d has no rack: the nodes of this cluster have no label %s", id,
				"topology.kubernetes.io/zone")
		}
		answer := e.mustCall(t, "GET", "nearest", "topic", failover, "rack", rack)
		e.measured(t, "rack %s: %d records, batches by broker %v", rack, answer.Held,
			answer.Sources)
		for broker, batches := range answer.Sources {
			if broker != id && batches > answer.Sources[id] {
				t.Errorf(
					"a consumer in rack %s read %d batches from broker %d, and %d from broker %d of its own rack",
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
