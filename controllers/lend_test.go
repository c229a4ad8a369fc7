package controllers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A rolling update with a partition of one replica", func() {
	var f *fixture
	var home, other int32
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		holder := &atomic.Int32{}
		// Each server plays a broker.
		for id := range int32(2) {
			server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
				request *http.Request) {
				if strings.HasPrefix(request.URL.Path, "/api/v1/may-stop/") {
					_ = json.NewEncoder(out).Encode(report.MayStop{MayStop: true})
					return
				}
				// The partition's home has 1 MiB of the partition's records, and the other broker has none yet.
				answer := report.Partitions{}
				if id == holder.Load() {
					answer.Partitions = []report.Partition{{Broker: id, Topic: "orders", Partition: 0,
						SizeBytes: 1 << 20}}
				}
				_ = json.NewEncoder(out).Encode(answer)
			}))
			t.Cleanup(server.Close)
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
			f.renew(id, "broker", 1, diskOf(id), validThroughout)
		}
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 2, Rollout: &v1alpha1.Rollout{
				SingleReplica: v1alpha1.SingleReplicaMove}}})
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 1, new(int32(1))
		})
		f.revision("first")
		for id := range int32(2) {
			f.brokerPod(id, "first")
		}
		f.serve("orders/0")
		f.expectRollout(v1alpha1.ReasonComplete)
		home = f.state(Default, "orders/0").Leader
		other = 1 - home
		holder.Store(home)
	})
	assigned := func(want ...int32) {
		Eventually(func(g Gomega) {
			entry := f.entry(g, "orders/0")
			g.Expect(entry.Assignment.Replicas).To(Equal(want))
			g.Expect(entry.Lent).To(Equal(len(want) == 2))
			g.Expect(get(g, f, "main",
				&v1alpha1.LogCluster{}).Status.LentReplicas).To(BeEquivalentTo(len(want) - 1))
		}).Should(Succeed())
	}
	// onlyHomeLeft leaves the partition's home as the only broker with an outdated pod.
	onlyHomeLeft := func() {
		f.revision("second")
		f.expectPods(home)
		f.brokerPod(other, "second")
	}

	It("lends a replica before the restart, and takes it back afterwards", func(t *testing.T) {
		onlyHomeLeft()
		assigned(home, other)
		f.expectEvent("main", "Normal", v1alpha1.EventReplicasLent)
		f.expectRollout(v1alpha1.ReasonWaiting, "other brokers copy 1 partitions", "1024 KiB left")
		Consistently(func(g Gomega) {
			g.Expect(f.entry(g, "orders/0").Assignment.Replicas).To(HaveLen(2))
			g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Status.ReadyBrokers).To(
				BeEquivalentTo(2))
		}, several(rolloutInterval)).Should(Succeed())

		t.Log("restarting the broker when the lent replica is in sync")
		f.isr("orders/0", home, other)
		f.expectPods(other)
		f.renew(home, "", 1, diskOf(home), validThroughout) // the broker has stopped
		Eventually(func(g Gomega) {
			g.Expect(f.state(g, "orders/0").Leader).To(Equal(other))
		}).Should(Succeed())
		f.expectRollout(v1alpha1.ReasonRestarting, "is being restarted")
		assigned(home, other)

		t.Log("taking it back when the broker is ready and in sync")
		f.renew(home, "broker", 2, diskOf(home), validThroughout)
		f.brokerPod(home, "second")
		assigned(home)
		f.expectEvent("main", "Normal", v1alpha1.EventReplicasReturned)
		Consistently(func(g Gomega) { // the other broker's log is not complete yet
			g.Expect(f.state(g, "orders/0").Leader).To(Equal(other))
		}, "500ms").Should(Succeed())
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			state.ISR = append(slices.Clone(state.ISR),
				placement.InSyncReplica{Broker: home, Epoch: 2, Directory: diskOf(home)})
		})
		Eventually(func(g Gomega) {
			state := f.state(g, "orders/0")
			g.Expect(state.Leader).To(Equal(home))
			g.Expect(state.Replicas).To(Equal([]int32{home}))
		}).Should(Succeed())
		f.expectRollout(v1alpha1.ReasonComplete)
	})

	It("takes the replica back when the update is taken back", func(t *testing.T) {
		onlyHomeLeft()
		assigned(home, other)
		f.revision("first")
		f.expectPods(home) // pod of the first revision; the other broker's pod gets this revision again
		f.brokerPod(other, "first")
		assigned(home)
		Eventually(func(g Gomega) {
			state := f.state(g, "orders/0")
			g.Expect(state.Leader).To(Equal(home))
			g.Expect(state.Replicas).To(Equal([]int32{home}))
		}).Should(Succeed())
		f.expectRollout(v1alpha1.ReasonComplete)
	})

	It("begins no loan while it is paused, or no broker may receive replicas", func(t *testing.T) {
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Cordoned = []int32{0, 1}
		})
		f.expectObserved()
		onlyHomeLeft()
		f.expectRollout(v1alpha1.ReasonWaiting, "no other broker is up and may get one",
			"set spec.rollout.singleReplica to Accept")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
			cluster.Spec.Cordoned = nil
		})
		f.expectRollout(v1alpha1.ReasonPaused)
		Consistently(func(g Gomega) {
			g.Expect(f.entry(g, "orders/0").Assignment.Replicas).To(HaveLen(1))
		}, several(rolloutInterval)).Should(Succeed())
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = nil
		})
		assigned(home, other)

		t.Log("accepting that the partition is unavailable")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Rollout.SingleReplica = v1alpha1.SingleReplicaAccept
		})
		assigned(home)
		f.expectPods(other)
	})

	It("leaves the replica to a Topic that needs it now", func(t *testing.T) {
		onlyHomeLeft()
		assigned(home, other)
		change(f, "orders", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Spec.Replicas = new(int32(2))
		})
		Eventually(func(g Gomega) {
			entry := f.entry(g, "orders/0")
			g.Expect(entry.Assignment.Replicas).To(Equal([]int32{home, other}))
			g.Expect(entry.Lent).To(BeFalse())
		}).Should(Succeed())
		f.isr("orders/0", home, other)
		f.expectPods(other)
		g := NewWithT(t)
		g.Expect(f.state(g, "orders/0").Leader).NotTo(Equal(placement.NoLeader))
	})
})
