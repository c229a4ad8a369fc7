//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

const (
	spread = "spread"
	// smallLog is a log size below which half of a log can be copied before a drain is cancelled.
	smallLog = 256 << 10
)

// rebalance adds two brokers, cancels a drain, drains a broker with a middle id, and removes the
// two brokers again, all under load.
func (e *environment) rebalance(t *testing.T) {
	defer func() {
		if t.Failed() { // the later steps need the three brokers
			e.kubectl(t, "annotate", "logcluster", logCluster, "--overwrite",
				v1alpha1.AnnotationDrainAnyway+"=true", v1alpha1.AnnotationRebalance+"-")
			e.patch(t, `{"spec":{"drain":null,"brokers":3}}`)
			e.waitScaled(t, v1alpha1.ReasonScaled)
			e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationDrainAnyway+"-")
			e.kubectl(t, "delete", "topic", spread, "--ignore-not-found", "--timeout=120s")
		}
	}()
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
		// Of 5 brokers in 3 zones, one can be the only broker in its zone.
		e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationDrainAnyway+"=true")
		e.cancelDrain(t)
		e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationRebalance+"-")
		e.drainWithoutOperator(t)
		e.kubectl(t, "wait", "logcluster", logCluster, "--for=condition=Drained", "--timeout=60s")
		if held := e.held(t)[1]; held > 0 {
			t.Errorf("broker 1 holds %d replicas after the drain", held)
		}
		e.patch(t, `{"spec":{"drain":null,"brokers":3}}`)
		e.kubectl(t, "annotate", "logcluster", logCluster, v1alpha1.AnnotationDrainAnyway+"-")
		e.waitScaled(t, v1alpha1.ReasonScaled)
	})
	if claims := e.volumes(t); len(claims) != 5 {
		t.Errorf("%d claims are left, want those of all 5 brokers", len(claims))
	}
	e.kubectl(t, "delete", "topic", spread, "--timeout=120s")
}

// addBrokers waits until two new brokers have their share of the bytes, without more copies than
// necessary. Meanwhile it measures the latency.
func (e *environment) addBrokers(t *testing.T) {
	quiet := e.latency(t, "3 brokers, no moves", func() { e.pause(t, 20*time.Second) })
	e.patch(t, `{"spec":{"brokers":5}}`)
	e.waitMoves(t, v1alpha1.TriggerOnScale)
	moving := e.latency(t, "moves to 2 new brokers",
		func() { e.waitRun(t, v1alpha1.TriggerOnScale, v1alpha1.RebalanceDone) })
	// This is only measured, not checked, because the brokers, the client and Kubernetes share one
	// machine's CPUs.
	e.measured(t, "99th percentile of the latency: %.1f times that without moves; the target is 2",
		float64(moving)/float64(quiet))
	racks := e.rackOf(t, 5)
	var shares map[int32]int64
	// After a replica has moved away, its broker deletes the log some time after the end of the run.
	until(t, "bytes balanced", func(context.Context) string {
		held := e.replicas(t, 5)
		sizes, total := held.byBroker()
		shares = held.shares(racks)
		for id, bytes := range sizes {
			if off := max(bytes-shares[id], shares[id]-bytes); off > total/50+held.largest() {
				return fmt.Sprintf("bytes by broker %v, expected %v, racks %v", sizes, shares, racks)
			}
		}
		e.measured(t, "bytes by broker after 3 -> 5: %v, expected %v", sizes, shares)
		return ""
	})
	// Each of the new brokers needs at least 90 % of its share. The share includes the records that
	// were written during the run, and so does the number of copied bytes.
	copied, bound := e.lastRun(t).BytesDone, (shares[3]+shares[4])*9/10
	e.measured(t, "the run copied %d bytes, the lower bound is %d", copied, bound)
	if copied > bound*11/10 {
		t.Errorf("the run copied %d bytes, the lower bound is %d", copied, bound)
	}
}

// latency returns the 99th percentile of topic failover's acknowledgement latency while a function
// runs.
func (e *environment) latency(t *testing.T, name string, during func()) time.Duration {
	t.Helper()
	before := e.leaderEpochs(t)
	e.mustCall(t, "POST", "mark", "topic", failover)
	during()
	got := e.mustCall(t, "GET", "stats", "topic", failover)
	e.measured(t, "%s: latency of %d records: p50 %d ms, p99 %d ms; %d leader changes; %s", name,
		got.Measured, got.P50, got.P99, e.leaderEpochs(t)-before, got.longest())
	if got.Measured < 1000 {
		t.Fatalf("only %d records were acknowledged", got.Measured)
	}
	return time.Duration(got.P99) * time.Millisecond
}

// leaderEpochs returns the sum of the leader epochs of topic failover's partitions.
func (e *environment) leaderEpochs(t *testing.T) (sum int32) {
	t.Helper()
	all, err := e.partitions(t.Context(), failover)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		sum += p.LeaderEpoch
	}
	return sum
}

// waitMoves waits until a run with the given trigger moves partitions.
func (e *environment) waitMoves(t *testing.T, trigger v1alpha1.RebalanceTrigger) {
	t.Helper()
	until(t, fmt.Sprintf("moves of run %s", trigger), func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster); err != nil {
			return err.Error()
		}
		if run := cluster.Status.Rebalance; run == nil || run.Trigger != trigger ||
			run.Phase != v1alpha1.RebalanceMoving || len(run.Moving) == 0 {
			return fmt.Sprintf("%+v", run)
		}
		return ""
	})
}

// cancelDrain cancels a drain that is too slow to end. The assignments must then be the same as
// before the drain, except for small logs of which half has been copied.
func (e *environment) cancelDrain(t *testing.T) {
	before, large := e.targets(t), e.largeLogs(t, 5)
	e.patch(t, `{"spec":{"drain":[1],"rebalance":{"rate":"1Ki"}}}`)
	e.waitMoves(t, v1alpha1.TriggerDrain)
	e.kubectl(t, "annotate", "logcluster", logCluster,
		v1alpha1.AnnotationRebalance+"="+v1alpha1.RebalanceCancel)
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceCancelled)
	until(t, "reassignments ended", func(ctx context.Context) string {
		all, err := e.allPartitions(ctx)
		if err != nil {
			return err.Error()
		}
		for key, p := range all {
			if !slices.Equal(p.Replicas, p.Target) {
				return fmt.Sprintf("partition %s: %v, target %v", key, p.Replicas, p.Target)
			}
		}
		return ""
	})
	moved := 0
	for key, replicas := range e.targets(t) {
		switch {
		case slices.Equal(replicas, before[key]):
		case large[key]:
			t.Errorf("partition %s was on %v and is on %v after the cancelled drain", key,
				before[key], replicas)
		default:
			moved++
		}
	}
	t.Logf("%d large and %d other partitions, %d of the others were moved before the cancel",
		len(large), len(before)-len(large), moved)
	if e.held(t)[1] == 0 || len(large) < 40 {
		t.Errorf("broker 1 holds %d replicas, %d partitions are large", e.held(t)[1], len(large))
	}
}

// targets returns the target assignment of each partition.
func (e *environment) targets(t *testing.T) map[partitionset.Key][]int32 {
	t.Helper()
	all, err := e.allPartitions(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatalf("%d partitions, %v", len(all), err)
	}
	targets := map[partitionset.Key][]int32{}
	for key, p := range all {
		targets[key] = p.Target
	}
	return targets
}

// drainWithoutOperator kills the operators while a drain moves replicas. The next operator must
// continue the same run, and no broker must fail.
func (e *environment) drainWithoutOperator(t *testing.T) {
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceMoving)
	began, watch := e.lastRun(t).StartTime, e.watchAll(t, 5)
	e.pause(t, 5*time.Second) // some moves are in progress then
	e.killOperators(t)
	e.patch(t, `{"spec":{"rebalance":null}}`) // removes the limit of the rate
	e.waitRun(t, v1alpha1.TriggerDrain, v1alpha1.RebalanceDone)
	if now := e.lastRun(t).StartTime; !now.Equal(began) {
		t.Errorf("the run began at %s, that of the killed operator at %s", now, began)
	}
	watch.check(t, 0)
}

// lastRun returns the state of the last run.
func (e *environment) lastRun(t *testing.T) v1alpha1.RebalanceStatus {
	t.Helper()
	var cluster v1alpha1.LogCluster
	if err := e.Get(t.Context(), client.ObjectKey{Name: logCluster}, &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Status.Rebalance == nil {
		t.Fatal("there was no run")
	}
	return *cluster.Status.Rebalance
}

func (e *environment) patch(t *testing.T, patch string) {
	t.Helper()
	e.kubectl(t, "patch", "logcluster", e.cluster, "--type=merge", "-p", patch)
}

// waitRun waits until a run with the given trigger, between all brokers of the spec, has the given
// phase. An earlier run with the same trigger and phase, but another number of brokers, does not
// count.
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

// held returns the number of replicas on each broker.
func (e *environment) held(t *testing.T) map[int32]int {
	t.Helper()
	all, err := e.allPartitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held := map[int32]int{}
	for _, p := range all {
		for _, id := range p.Replicas {
			held[id]++
		}
	}
	return held
}

// largeLogs returns the partitions that are larger than smallLog.
func (e *environment) largeLogs(t *testing.T, brokers int32) map[partitionset.Key]bool {
	t.Helper()
	large := map[partitionset.Key]bool{}
	for id := range brokers {
		for _, p := range e.logs(t, id) {
			if p.SizeBytes > smallLog {
				large[partitionset.Key{Topic: p.Topic, Index: p.Partition}] = true
			}
		}
	}
	return large
}

// logs returns a broker's report on its replicas.
func (e *environment) logs(t *testing.T, broker int32) []report.Partition {
	t.Helper()
	text := e.kubectl(t, "get", "--raw", "/api/v1/namespaces/"+e.namespace+"/pods/"+
		brokerPod(broker)+":9644/proxy/api/v1/partitions")
	var answer report.Partitions
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Partitions
}
