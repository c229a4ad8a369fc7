//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

const spread = "spread"

// rebalance adds two brokers, cancels a drain, drains a broker in the middle, and removes the two
// brokers again, all under load.
func (e *environment) rebalance(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/spread.yaml")
	until(t, "partitions of spread assigned", func(ctx context.Context) string {
		all, err := e.partitions(ctx, spread)
		if err != nil || len(all) != 40 {
			return fmt.Sprintf("%d partitions, %v", len(all), err)
		}
		return ""
	})
	t.Log(e.kubectl(t, "exec", brokerPod(0), "--", "/heartwood", "bench", "produce", "--topic",
		spread, "--create=false", "--records", "30000"))
	e.underLoad(t, func(t *testing.T) {
		e.addBrokers(t)
		e.cancelDrain(t)
		e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationRebalance+"-")
		e.drainWithoutOperator(t)
		e.kubectl(t, "wait", "logcluster", logCluster, "--for=condition=Drained", "--timeout=60s")
		if held := e.held(t)[1]; held > 0 {
			t.Errorf("broker 1 holds %d replicas after the drain", held)
		}
		e.patch(t, `{"spec":{"drain":null,"brokers":3}}`)
		e.waitScaled(t, v1alpha1.ReasonScaled)
	})
	if claims := e.volumes(t); len(claims) != 5 {
		t.Errorf("%d claims are left, want those of all 5 brokers", len(claims))
	}
	e.kubectl(t, "delete", "topic", spread, "--timeout=120s")
}

// addBrokers waits until two new brokers have their share of the bytes.
func (e *environment) addBrokers(t *testing.T) {
	e.patch(t, `{"spec":{"brokers":5}}`)
	e.waitRun(t, v1alpha1.TriggerOnScale, v1alpha1.RebalanceDone)
	sizes, largest := e.sizes(t, 5)
	total := int64(0)
	for _, bytes := range sizes {
		total += bytes
	}
	t.Logf("MEASURED bytes by broker after 3 -> 5: %v, the mean is %d", sizes, total/5)
	for id, bytes := range sizes {
		if off := max(bytes-total/5, total/5-bytes); off > total/50+largest {
			t.Errorf("broker %d has %d bytes, the mean is %d", id, bytes, total/5)
		}
	}
}

// cancelDrain cancels a drain that is too slow to end: replicas that have copied little stay.
func (e *environment) cancelDrain(t *testing.T) {
	e.patch(t, `{"spec":{"drain":[1],"rebalance":{"rate":"1Ki"}}}`)
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceMoving)
	e.kubectl(t, "annotate", "logcluster", logCluster,
		v1alpha1.AnnotationRebalance+"="+v1alpha1.RebalanceCancel)
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceCancelled)
	until(t, "reassignments ended", func(ctx context.Context) string {
		all, err := e.partitions(ctx, spread)
		if err != nil {
			return err.Error()
		}
		for index, p := range all {
			if !slices.Equal(p.Replicas, p.Target) {
				return fmt.Sprintf("partition %d: %v, target %v", index, p.Replicas, p.Target)
			}
		}
		return ""
	})
	if e.held(t)[1] == 0 {
		t.Error("broker 1 was drained although the drain was cancelled")
	}
}

// drainWithoutOperator kills the operators while a drain moves replicas. The next operator
// continues the same run.
func (e *environment) drainWithoutOperator(t *testing.T) {
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceMoving)
	began := e.rebalanceStart(t)
	e.killOperators(t)
	e.kubectl(t, "rollout", "status", "deployment", "--timeout=120s")
	e.patch(t, `{"spec":{"rebalance":null}}`) // no limit of the rate any more
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceDone)
	if now := e.rebalanceStart(t); now != began {
		t.Errorf("the run began at %s, that of the killed operator at %s", now, began)
	}
}

// rebalanceStart returns when the last run began.
func (e *environment) rebalanceStart(t *testing.T) string {
	t.Helper()
	return e.kubectl(t, "get", "logcluster", logCluster, "-o",
		"jsonpath={.status.rebalance.startTime}")
}

func (e *environment) patch(t *testing.T, patch string) {
	t.Helper()
	e.kubectl(t, "patch", "logcluster", e.cluster, "--type=merge", "-p", patch)
}

// waitRun waits until a run with a trigger, between all brokers of the spec, has a phase. An
// earlier run may have had the same trigger and phase, between another number of brokers.
func (e *environment) waitRun(t *testing.T, trigger v1alpha1.RebalanceTrigger,
	phase v1alpha1.RebalancePhase) {
	t.Helper()
	until(t, fmt.Sprintf("run %s to be %s", trigger, phase), func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster); err != nil {
			return err.Error()
		}
		run := cluster.Status.Rebalance
		if run == nil || run.Trigger != trigger || run.Phase != phase ||
			run.Brokers != cluster.Spec.Brokers {
			return fmt.Sprintf("%+v", run)
		}
		return ""
	})
	t.Log(e.kubectl(t, "get", "logcluster", logCluster, "-o", "jsonpath={.status.rebalance}"))
}

// held returns the number of replicas of topics spread and failover on each broker.
func (e *environment) held(t *testing.T) map[int32]int {
	t.Helper()
	held := map[int32]int{}
	for _, topic := range []string{spread, failover} {
		all, err := e.partitions(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			for _, id := range p.Replicas {
				held[id]++
			}
		}
	}
	return held
}

// sizes returns the bytes on each broker, and the size of the largest replica.
func (e *environment) sizes(t *testing.T, brokers int32) (sizes map[int32]int64, largest int64) {
	t.Helper()
	sizes = map[int32]int64{}
	for id := range brokers {
		text := e.kubectl(t, "get", "--raw", "/api/v1/namespaces/"+e.namespace+"/pods/"+
			brokerPod(id)+":9644/proxy/api/v1/partitions")
		var answer report.Partitions
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		for i := range answer.Partitions {
			sizes[id] += answer.Partitions[i].SizeBytes
			largest = max(largest, answer.Partitions[i].SizeBytes)
		}
	}
	return sizes, largest
}
