package controllers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// revision plays the StatefulSet controller: it reports the revision of the latest template.
func (f *fixture) revision(name string) {
	Eventually(func(g Gomega) {
		brokers := get(g, f, "main-broker", &appsv1.StatefulSet{})
		brokers.Status = appsv1.StatefulSetStatus{ObservedGeneration: brokers.Generation,
			CurrentRevision: "first", UpdateRevision: name}
		g.Expect(api.Status().Update(context.Background(), brokers)).To(Succeed())
	}).Should(Succeed())
}

// brokerPod plays the StatefulSet controller and the kubelet: it creates a broker's ready pod with
// a revision of the template.
func (f *fixture) brokerPod(id int32, revision string) *corev1.Pod {
	pod := f.podOfRevision(id, revision)
	f.ready(pod)
	return pod
}

// expectPods waits until only the given brokers have a pod.
func (f *fixture) expectPods(ids ...int32) {
	Eventually(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(api.List(context.Background(), pods, client.InNamespace(f.namespace))).To(Succeed())
		var found []int32
		for _, pod := range pods.Items {
			_, id, _ := v1alpha1.ParseBrokerLeaseName(pod.Name)
			found = append(found, id)
		}
		g.Expect(found).To(ConsistOf(ids))
	}).Should(Succeed())
}

func (f *fixture) expectRollout(reason string, message ...string) {
	expectReason(f.clusterConditions(), v1alpha1.ConditionRollingOut, reason, message...)
}

var _ = Describe("A rolling update", func() {
	var f *fixture
	var refusal atomic.Pointer[report.BlockingPartition]
	// status of broker 0's response to a request for a restart; 0: responds like the others
	var status atomic.Int32
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		refusal.Store(nil)
		status.Store(0)
		// The server plays every broker.
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			request *http.Request) {
			if !strings.HasPrefix(request.URL.Path, "/api/v1/may-stop/") {
				http.NotFound(out, request)
				return
			}
			if code := int(status.Load()); code != 0 &&
				request.Host == render.HTTPAddress("main", f.namespace, 0) {
				out.WriteHeader(code)
				return
			}
			answer := report.MayStop{MayStop: true}
			if blocking := refusal.Load(); blocking != nil {
				answer.MayStop, answer.Blocking = false, []report.BlockingPartition{*blocking}
			}
			_ = json.NewEncoder(out).Encode(answer)
		}))
		t.Cleanup(server.Close)
		f.cluster(3)
		for id := range int32(3) {
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
			f.renew(id, "broker", 1, "disk", validThroughout)
		}
		f.expectSeen(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions = 1
			spec.Replicas, spec.MinInSyncReplicas = new(int32(3)), new(int32(2))
		})
		f.revision("first")
		for id := range int32(3) {
			f.brokerPod(id, "first")
		}
		f.serve("orders/0")
		f.expectRollout(v1alpha1.ReasonComplete)
	})

	leader := func() int32 { return f.state(Default, "orders/0").Leader }
	follower := func(index int) int32 {
		var ids []int32
		for id := int32(2); id >= 0; id-- {
			if id != leader() {
				ids = append(ids, id)
			}
		}
		return ids[index]
	}

	It("restarts one broker at a time, the leader last, and shows it", func(t *testing.T) {
		first, second := follower(0), follower(1)
		f.revision("second")
		f.expectPods(second, leader())
		f.expectRollout(v1alpha1.ReasonRestarting, "is being restarted",
			"Brokers with an outdated pod: 2")
		f.expectEvent("main", "Normal", v1alpha1.EventRestarting)

		t.Log("not going on while the restarted broker is not ready")
		f.podOfRevision(first, "second") // pod from a template with which the broker does not start
		f.expectRollout(v1alpha1.ReasonRestarting, "is being restarted")
		Consistently(func(g Gomega) {
			pods := &corev1.PodList{}
			g.Expect(api.List(context.Background(), pods,
				client.InNamespace(f.namespace))).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(3))
		}, several(rolloutInterval)).Should(Succeed())

		t.Log("going on when it is ready")
		f.ready(get(Default, f, v1alpha1.BrokerLeaseName("main", first), &corev1.Pod{}))
		f.expectPods(first, leader())
		f.brokerPod(second, "second")
		f.expectPods(first, second)
		f.brokerPod(leader(), "second")
		f.expectRollout(v1alpha1.ReasonComplete)
		brokers := get(Default, f, "main", &v1alpha1.LogCluster{}).Status.Brokers
		Expect(brokers).To(HaveLen(3))
		Expect(brokers[leader()].Leaders).To(Equal(int32(1)))
		Expect(brokers[first].RestartReason).To(BeEmpty())
	})

	It("is shown from the apply of a changed template on", func(t *testing.T) {
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Image = "registry.example/heartwood:next"
		})
		Eventually(func(g Gomega) {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			rollingOut := meta.FindStatusCondition(cluster.Status.Conditions,
				v1alpha1.ConditionRollingOut)
			if rollingOut.ObservedGeneration == cluster.Generation {
				Expect(rollingOut.Reason).To(Equal(v1alpha1.ReasonObserving))
			}
			g.Expect(rollingOut.ObservedGeneration).To(Equal(cluster.Generation))
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		}).Should(Succeed())
	})

	It("waits for replicas that are not in sync, and for the consent of the brokers",
		func(t *testing.T) {
			refusal.Store(&report.BlockingPartition{Topic: "orders", InSyncReplicas: []int32{0, 1}})
			f.revision("second")
			f.expectRollout(v1alpha1.ReasonWaiting, "partition orders/0 has too few in-sync replicas")
			f.expectPods(0, 1, 2)
			Eventually(func(g Gomega) {
				for _, broker := range get(g, f, "main", &v1alpha1.LogCluster{}).Status.Brokers {
					g.Expect(broker.RestartReason).To(Equal(v1alpha1.RestartTemplateChanged))
				}
			}).Should(Succeed())

			t.Log("removing a replica from the ISR: its broker and the others must stay")
			f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
				state.ISR = state.ISR[:2]
			})
			Eventually(func(g Gomega) {
				budget := get(g, f, "main-broker", &policyv1.PodDisruptionBudget{})
				g.Expect(budget.Spec.MaxUnavailable.IntVal).To(BeZero())
			}).Should(Succeed())
			refusal.Store(nil)
			f.expectPods(f.outOfSyncKept()...)
		})

	It("waits for a broker that does not say whether another one may stop", func(t *testing.T) {
		status.Store(http.StatusServiceUnavailable)
		f.revision("second")
		f.expectRollout(v1alpha1.ReasonWaiting, "Broker 0 did not say", "503")
		f.expectPods(0, 1, 2)

		t.Log("restarting that broker itself, as soon as it is not ready either")
		f.unready(0)
		f.expectPods(1, 2)
	})

	It("does not wait for a broker of a version that cannot say it", func(t *testing.T) {
		status.Store(http.StatusNotFound)
		first := follower(0)
		f.revision("second")
		Eventually(func(g Gomega) {
			g.Expect(api.Get(context.Background(), client.ObjectKey{Namespace: f.namespace,
				Name: v1alpha1.BrokerLeaseName("main", first)}, &corev1.Pod{})).To(
				MatchError(apierrors.IsNotFound, "IsNotFound"))
		}).Should(Succeed())
	})

	It("says that it may not delete a pod, until it may", func(t *testing.T) {
		allow := forbidPodDeletions(t, f.namespace, follower(0))
		f.revision("second")
		f.expectRollout(v1alpha1.ReasonWaiting, "failed to delete pod", "denied request")
		allow()
		f.expectPods(follower(1), leader())
	})

	It("is still shown while an invalid spec cannot be applied", func(t *testing.T) {
		refusal.Store(&report.BlockingPartition{Topic: "orders", InSyncReplicas: []int32{0, 1}})
		f.revision("second")
		f.expectRollout(v1alpha1.ReasonWaiting, "orders/0")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Resources = &v1alpha1.Resources{
				Requests: map[string]resource.Quantity{"no resource": resource.MustParse("1")}}
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed)
		f.expectRollout(v1alpha1.ReasonWaiting, "orders/0")
	})

	It("closes and opens the disruption budget also while it is paused", func(t *testing.T) {
		maxUnavailable := func(g Gomega) int32 {
			return get(g, f, "main-broker",
				&policyv1.PodDisruptionBudget{}).Spec.MaxUnavailable.IntVal
		}
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonPaused)
		Eventually(maxUnavailable).Should(Equal(int32(1)))
		var all []placement.InSyncReplica
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) {
			all = slices.Clone(state.ISR)
			state.ISR = state.ISR[:2]
		})
		Eventually(maxUnavailable).Should(BeZero())
		f.putState("orders/0", func(_ Gomega, state *partitionset.State) { state.ISR = all })
		Eventually(maxUnavailable).Should(Equal(int32(1)))
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonPaused)
	})

	It("permits no eviction while clients may use the address of a previous pod", func(t *testing.T) {
		maxUnavailable := func(g Gomega) int32 {
			return get(g, f, "main-broker",
				&policyv1.PodDisruptionBudget{}).Spec.MaxUnavailable.IntVal
		}
		Eventually(maxUnavailable).Should(Equal(int32(1)))
		pod := get(Default, f, "main-broker-1", &corev1.Pod{}).UID
		next := map[types.UID]types.UID{"": pod, pod: ""}
		Eventually(func(g Gomega) {
			// The broker gets a new pod each time, because clients use the previous address only for 30 s.
			pod = next[pod]
			f.runIn(1, pod)
			f.advance(0) // needed because a Lease alone triggers no apply
			g.Expect(maxUnavailable(g)).To(BeZero())
		}).WithPolling(200 * time.Millisecond).Should(Succeed())
		Expect(f.state(Default, "orders/0").ISR).To(HaveLen(3), "the replicas permit the eviction")
	})

	It("restarts the broker whose pod has the annotation", func(t *testing.T) {
		id := follower(0)
		change(f, v1alpha1.BrokerLeaseName("main", id), &corev1.Pod{}, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1alpha1.AnnotationRestart: "now"}
		})
		f.expectPods(leader(), follower(1))
	})

	It("is not caused by another level of the log", func(t *testing.T) {
		before := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Logging = &v1alpha1.Logging{Level: v1alpha1.LogDebug}
		})
		Eventually(func(g Gomega) {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		}).Should(Succeed())
		Expect(get(Default, f, "main-broker", &appsv1.StatefulSet{}).Spec).To(Equal(before.Spec))
	})

	It("follows the annotation of the LogCluster, and pauses", func(t *testing.T) {
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true",
				v1alpha1.AnnotationRestart: "1"}
			cluster.Spec.Image = "registry.example/heartwood:next"
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonPaused,
			"Remove the annotation")
		cluster := get(Default, f, "main", &v1alpha1.LogCluster{})
		Expect(cluster.Status.ObservedGeneration).To(BeNumerically("<", cluster.Generation))
		template := func(g Gomega) corev1.PodTemplateSpec {
			return get(g, f, "main-broker", &appsv1.StatefulSet{}).Spec.Template
		}
		Expect(template(Default).Annotations).To(BeEmpty())
		Expect(template(Default).Spec.Containers[0].Image).To(HaveSuffix(":test"))

		t.Log("continuing")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			delete(cluster.Annotations, v1alpha1.AnnotationPaused)
		})
		Eventually(func(g Gomega) {
			g.Expect(template(g).Annotations).To(
				HaveKeyWithValue(v1alpha1.AnnotationRestartedFor, "1"))
			g.Expect(template(g).Spec.Containers[0].Image).To(HaveSuffix(":next"))
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
		}).Should(Succeed())

		t.Log("removing the annotation, which restarts nothing")
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = nil
			cluster.Spec.Image = ""
		})
		Eventually(func(g Gomega) {
			g.Expect(template(g).Spec.Containers[0].Image).To(HaveSuffix(":test"))
		}).Should(Succeed())
		Expect(template(Default).Annotations).To(
			HaveKeyWithValue(v1alpha1.AnnotationRestartedFor, "1"))
	})
})

var _ = Describe("A rolling update with terms", func() {
	var f *fixture
	revisions := func(g Gomega) (labels []string) {
		pods := &corev1.PodList{}
		g.Expect(api.List(context.Background(), pods, client.InNamespace(f.namespace))).To(Succeed())
		for _, pod := range pods.Items {
			labels = append(labels, pod.Labels[appsv1.ControllerRevisionHashLabelKey])
		}
		return labels
	}
	with := func(rollout *v1alpha1.Rollout) {
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Rollout = rollout
		})
		f.expectObserved()
		f.expectRollout(v1alpha1.ReasonComplete)
	}
	stays := func() {
		Consistently(func(g Gomega) {
			g.Expect(revisions(g)).To(ConsistOf("first", "first"))
		}, "1s").Should(Succeed())
	}
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			_ *http.Request) {
			_ = json.NewEncoder(out).Encode(report.MayStop{MayStop: true})
		}))
		t.Cleanup(server.Close)
		f.cluster(2)
		f.revision("first")
		for id := range int32(2) {
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
			f.renew(id, "broker", 1, "disk", validThroughout)
			f.brokerPod(id, "first")
		}
		f.expectRollout(v1alpha1.ReasonComplete)
	})

	It("waits for the approval of its revision", func(t *testing.T) {
		with(&v1alpha1.Rollout{Policy: v1alpha1.RolloutOnApproval})
		f.revision("second")
		f.expectRollout(v1alpha1.ReasonApprovalRequired, "Brokers with an outdated pod: 2",
			"kubectl annotate logcluster -n "+f.namespace+
				" main heartwood.dev/approve-rollout=second --overwrite")
		stays()
		cluster := get(Default, f, "main", &v1alpha1.LogCluster{})
		Expect(cluster.Status.UpdateRevision).To(Equal("second"))
		Expect(cluster.Status.Brokers[0].RestartReason).To(Equal(v1alpha1.RestartTemplateChanged))

		t.Log("approving another revision")
		approve := func(revision string) {
			change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
				cluster.Annotations = map[string]string{v1alpha1.AnnotationApproveRollout: revision}
			})
		}
		approve("third")
		stays()

		t.Log("restarting one broker on request")
		change(f, "main-broker-0", &corev1.Pod{}, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1alpha1.AnnotationRestart: "now"}
		})
		f.expectPods(1)
		f.brokerPod(0, "second")
		f.expectRollout(v1alpha1.ReasonApprovalRequired, "Brokers with an outdated pod: 1")

		t.Log("approving this one")
		approve("second")
		f.expectPods(0)
		f.brokerPod(1, "second")
		f.expectRollout(v1alpha1.ReasonComplete)

		t.Log("replacing a broker that is down without an approval")
		f.revision("third")
		f.expectRollout(v1alpha1.ReasonApprovalRequired)
		f.renew(1, "", 1, "disk", validThroughout) // the broker has stopped
		f.unready(1)
		f.expectPods(0)
	})

	It("waits for its window", func(t *testing.T) {
		clock := func(in time.Duration) string { return time.Now().Add(in).UTC().Format("15:04") }
		start := clock(6 * time.Hour) // read only once, because a minute may begin at any time
		with(&v1alpha1.Rollout{Window: &v1alpha1.Window{Start: start, End: clock(7 * time.Hour)}})
		f.revision("second")
		f.expectRollout(v1alpha1.ReasonOutsideWindow, "spec.rollout.window", start)
		stays()
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Rollout.Window = &v1alpha1.Window{Start: clock(-2 * time.Hour),
				End: clock(2 * time.Hour)}
		})
		f.expectPods(0)
	})

	It("restarts brokers on request without an approval", func(t *testing.T) {
		with(&v1alpha1.Rollout{Policy: v1alpha1.RolloutOnApproval})
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationRestart: "1"}
		})
		Eventually(func(g Gomega) {
			template := get(g, f, "main-broker", &appsv1.StatefulSet{}).Spec.Template
			g.Expect(template.Annotations).To(HaveKey(v1alpha1.AnnotationRestartedFor))
		}).Should(Succeed())
		f.revision("second")
		f.expectPods(0)
	})
})

// outOfSyncKept returns the brokers that must not be restarted while one of three replicas of
// orders/0 is not in sync and min.insync.replicas is 2: the two in-sync brokers. The third broker
// can be restarted, because no producer waits for it.
func (f *fixture) outOfSyncKept() (ids []int32) {
	for _, member := range f.state(Default, "orders/0").ISR {
		ids = append(ids, member.Broker)
	}
	return ids
}

var _ = Describe("An invalid LogCluster", func() {
	It("is not applied, says so, and is applied once it is corrected", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(1)
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Resources = &v1alpha1.Resources{
				Requests: map[string]resource.Quantity{"no resource": resource.MustParse("1")}}
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed,
			"StatefulSet main-broker", "no resource")
		f.expectEvent("main", "Warning", v1alpha1.EventApplyFailed)
		Consistently(func(g Gomega) {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			g.Expect(cluster.Status.ObservedGeneration).To(BeNumerically("<", cluster.Generation))
			g.Expect(meta.IsStatusConditionFalse(cluster.Status.Conditions,
				v1alpha1.ConditionApplied)).To(BeTrue())
		}, "1s").Should(Succeed())

		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Resources, cluster.Spec.Brokers = nil, 2
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
		Eventually(func(g Gomega) {
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			g.Expect(cluster.Status.ObservedGeneration).To(Equal(cluster.Generation))
			g.Expect(*get(g, f, "main-broker",
				&appsv1.StatefulSet{}).Spec.Replicas).To(Equal(int32(2)))
		}).Should(Succeed())
	})
})
