package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A LogCluster whose brokers change", func() {
	const partitions = 12
	var f *fixture
	name := func(index int) string { return fmt.Sprintf("orders/%d", index) }
	// start starts a broker that reports 1 MiB for each of its replicas.
	start := func(broker int32) {
		f.pod(broker)
		f.renew(broker, fmt.Sprint("holder-", broker), 1, fmt.Sprint("disk-", broker),
			validThroughout)
		f.annotate(broker, map[string]string{v1alpha1.AnnotationRack: "rack"})
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			request *http.Request) {
			g := NewGomega(func(string, ...int) { panic(http.ErrAbortHandler) }) // without sets: no response
			rows := []report.Partition{}
			entries := f.entries(g) // only one request, because the operator asks all brokers every 100 ms
			for index := range partitions {
				entry := entries[name(index)]
				if entry.State == nil || !slices.Contains(entry.State.Replicas, broker) {
					continue
				}
				rows = append(rows, report.Partition{Broker: broker, Topic: "orders",
					Partition: int32(index), SizeBytes: 1 << 20,
					Leader: entry.State.Leader == broker})
			}
			_ = json.NewEncoder(out).Encode(report.Partitions{Partitions: rows})
		}))
		f.t.Cleanup(server.Close)
		hosts.set(render.HTTPAddress("main", f.namespace, broker), server.Listener.Addr().String())
	}
	// replicate plays the leaders, which add new replicas to the ISRs.
	replicate := func(g Gomega) {
		entries := f.entries(g)
		for index := range partitions {
			entry := entries[name(index)]
			if entry.State == nil || len(entry.State.ISR) == len(entry.State.Replicas) {
				continue
			}
			key := parse(name(index))
			object, set := f.setOf(g, key)
			entry, _ = set.Get(key)
			state := *entry.State
			state.ISR = nil
			for _, id := range state.Replicas {
				state.ISR = append(state.ISR, placement.InSyncReplica{Broker: id, Epoch: 1,
					Directory: fmt.Sprint("disk-", id)})
			}
			set.PutState(key, state)
			set.EncodeStatus(object)
			// After a conflict, the next call tries again.
			_ = api.Status().Update(context.Background(), object)
		}
	}
	counts := func(g Gomega) map[int32]int {
		counts := map[int32]int{}
		for _, assignment := range f.assignments(g) {
			for _, id := range assignment.Replicas {
				counts[id]++
			}
		}
		return counts
	}
	// ended waits until a run with the given trigger has ended.
	ended := func(trigger v1alpha1.RebalanceTrigger) {
		Eventually(func(g Gomega) {
			replicate(g)
			run := get(g, f, "main", &v1alpha1.LogCluster{}).Status.Rebalance
			g.Expect(run).NotTo(BeNil())
			g.Expect(run.Phase).To(Equal(v1alpha1.RebalanceDone), "%+v", run)
			g.Expect(run.Trigger).To(Equal(trigger))
			g.Expect(run.MovesDone).To(BeNumerically(">", 0))
			g.Expect(run.Moves).To(Equal(run.MovesDone))
		}).WithPolling(200 * time.Millisecond).Should(Succeed())
	}

	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(2)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = partitions, new(int32(1))
		})
		for id := range int32(2) {
			start(id)
		}
		Eventually(func(g Gomega) {
			entries := f.entries(g)
			for index := range partitions {
				g.Expect(entries).To(HaveKey(name(index)))
				g.Expect(entries[name(index)].State).NotTo(BeNil())
				g.Expect(entries[name(index)].State.Leader).NotTo(Equal(placement.NoLeader))
			}
			run := get(g, f, "main", &v1alpha1.LogCluster{}).Status.Rebalance
			g.Expect(run).NotTo(BeNil())
			g.Expect(run.Phase).To(Equal(v1alpha1.RebalanceIdle))
		}).Should(Succeed())
	})

	It("fills new brokers and empties drained ones", func(t *testing.T) {
		change(f, "main", &v1alpha1.LogCluster{},
			func(c *v1alpha1.LogCluster) { c.Spec.Brokers = 4 })
		Eventually(func(g Gomega) { // no replicas move to a broker before it is up
			run := get(g, f, "main", &v1alpha1.LogCluster{}).Status.Rebalance
			g.Expect(run.Phase).To(Equal(v1alpha1.RebalanceWaiting))
			g.Expect(run.Message).To(ContainSubstring("is not up"))
		}).Should(Succeed())
		start(2)
		start(3)
		ended(v1alpha1.TriggerOnScale)
		Expect(counts(Default)).To(Equal(map[int32]int{0: 3, 1: 3, 2: 3, 3: 3}))
		f.expectEvent("main", "Normal", v1alpha1.EventRebalanceStarted)
		f.expectEvent("main", "Normal", v1alpha1.EventRebalanceEnded)

		// Before the drain is decided, "kubectl wait" must not find the condition.
		cluster := get(Default, f, "main", &v1alpha1.LogCluster{})
		Expect(meta.FindStatusCondition(cluster.Status.Conditions,
			v1alpha1.ConditionDrained)).To(BeNil())
		change(f, "main", &v1alpha1.LogCluster{},
			func(c *v1alpha1.LogCluster) { c.Spec.Drain = []int32{1} })
		ended(v1alpha1.TriggerDrain)
		Expect(counts(Default)).To(Equal(map[int32]int{0: 4, 2: 4, 3: 4}))
		expectReason(f.clusterConditions(), v1alpha1.ConditionDrained, v1alpha1.ReasonDrained,
			"Brokers [1] hold no replicas")
		Eventually(func(g Gomega) {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionDrained)
			g.Expect(condition.ObservedGeneration).To(Equal(cluster.Generation))
		}).Should(Succeed())

		f.topic("later", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 6, new(int32(2))
		})
		Eventually(func(g Gomega) {
			assigned := 0
			for key, a := range f.assignments(g) {
				if strings.HasPrefix(key, "later/") {
					assigned++
					g.Expect(a.Replicas).NotTo(ContainElement(int32(1)))
				}
			}
			g.Expect(assigned).To(Equal(6))
		}).Should(Succeed())
	})

	It("moves nothing if a drain is impossible", func(t *testing.T) {
		change(f, "main", &v1alpha1.LogCluster{},
			func(c *v1alpha1.LogCluster) { c.Spec.Drain, c.Spec.Cordoned = []int32{1}, []int32{0} })
		expectReason(f.clusterConditions(), v1alpha1.ConditionDrained,
			v1alpha1.ReasonDrainBlocked, "is cordoned or is drained")
		f.expectEvent("main", "Warning", v1alpha1.ReasonDrainBlocked)
		Expect(counts(Default)).To(Equal(map[int32]int{0: 6, 1: 6}))
	})
})
