package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// pod creates a broker's pod without a revision; see podOfRevision.
func (f *fixture) pod(broker int32) *corev1.Pod {
	return f.podOfRevision(broker, "")
}

// podOfRevision creates a broker's pod from a revision of the template. It plays the StatefulSet
// controller and the kubelet, and reports that the pod's container has been running for a minute.
// The pod is created with the revision's label, because the operator restarts a broker whose pod
// does not have the latest revision.
func (f *fixture) podOfRevision(broker int32, revision string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
			Labels: map[string]string{v1alpha1.LabelCluster: "main",
				appsv1.ControllerRevisionHashLabelKey: revision}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: brokerstate.BrokerContainer,
			Image: "image"}}},
	}
	f.create(pod)
	f.container(
		pod,
		corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{
				StartedAt: metav1.NewTime(time.Now().Add(-time.Minute)),
			},
		},
	)
	return pod
}

// container plays the kubelet: it reports the state of the broker container in a pod.
func (f *fixture) container(pod *corev1.Pod, state corev1.ContainerState) {
	changeStatus(f, pod.Name, pod, func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: brokerstate.BrokerContainer, State: state, Image: "image", ImageID: "image"},
			}}
	})
}

// ready plays the kubelet: it reports a pod as ready.
func (f *fixture) ready(pod *corev1.Pod) {
	changeStatus(f, pod.Name, pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	})
}

// unready plays the kubelet and the StatefulSet controller: it reports that one broker's pod is no
// longer ready.
func (f *fixture) unready(broker int32) {
	changeStatus(f, v1alpha1.BrokerLeaseName("main", broker), &corev1.Pod{},
		func(pod *corev1.Pod) { pod.Status.Conditions = nil })
	changeStatus(f, "main-broker", &appsv1.StatefulSet{}, func(brokers *appsv1.StatefulSet) {
		brokers.Status.Replicas = *brokers.Spec.Replicas
		brokers.Status.ReadyReplicas = brokers.Status.Replicas - 1
	})
}

// annotate adds annotations to a broker's Lease and sets the acquireTime of the Lease to now.
func (f *fixture) annotate(broker int32, annotations map[string]string) {
	change(f, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{},
		func(lease *coordinationv1.Lease) {
			lease.Spec.AcquireTime = new(metav1.NowMicro())
			for name, value := range annotations {
				lease.Annotations[name] = value
			}
		})
}

// announce changes the registration that a broker has written to its Lease, in another broker
// epoch.
func (f *fixture) announce(broker int32, announced func(*v1alpha1.Registration)) {
	change(f, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{},
		func(lease *coordinationv1.Lease) {
			lease.Spec.AcquireTime = new(metav1.NowMicro())
			v1alpha1.ChangeRegistration(lease, announced)
		})
}

// runIn records in a broker's Lease that the broker runs in the given pod.
func (f *fixture) runIn(broker int32, pod types.UID) {
	f.announce(broker, func(r *v1alpha1.Registration) { r.Pod = string(pod) })
}

var _ = Describe("A partition of three replicas", func() {
	var f *fixture
	status := func(g Gomega) partitionset.State { return f.state(g, "orders/0") }
	inSync := func(state partitionset.State) (ids []int32) {
		for _, m := range state.ISR {
			ids = append(ids, m.Broker)
		}
		slices.Sort(ids)
		return ids
	}
	// expect waits until the partition has the given leader and ISR, and returns the leader epoch.
	expect := func(leader int32, isr ...int32) (epoch int32) {
		Eventually(func(g Gomega) {
			now := status(g)
			g.Expect(now.Leader).To(Equal(leader), "%+v", now)
			g.Expect(inSync(now)).To(Equal(isr))
			epoch = now.LeaderEpoch
		}).Should(Succeed())
		return epoch
	}
	join := func(ids ...int32) { // writes the ISR as a leader does when its followers have caught up
		f.putState("orders/0", func(g Gomega, state *partitionset.State) {
			state.ISR = nil
			for _, id := range ids {
				lease := get(g, f, v1alpha1.BrokerLeaseName("main", id), &coordinationv1.Lease{})
				state.ISR = append(state.ISR, placement.InSyncReplica{
					Broker: id, Epoch: int64(*lease.Spec.LeaseTransitions),
					Directory: v1alpha1.ReadRegistration(lease).Directory,
				})
			}
		})
	}
	var replicas []int32 // assignment of orders/0, the preferred leader first
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		f.cluster(3)
		for broker := range int32(3) {
			f.renew(broker, "a", 1, "disk"+string('0'+broker), validThroughout)
		}
		f.expectSeen(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) { replicas = f.replicas(g, "orders/0") }).Should(Succeed())
		expect(replicas[0], 0, 1, 2)
		f.serve("orders/0")
	})

	It(
		"fails over at once when its leader's container exits, and back when that broker is in sync again",
		func(t *testing.T) {
			pod := f.pod(replicas[0])
			f.runIn(replicas[0], pod.UID)
			rest := slices.Sorted(slices.Values(replicas[1:]))
			Consistently(func(g Gomega) { g.Expect(status(g).Leader).To(Equal(replicas[0])) },
				"300ms").Should(Succeed())
			f.container(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, FinishedAt: metav1.NewTime(time.Now().Add(time.Second)),
			}})
			epoch := expect(replicas[1], rest...)
			Expect(epoch).To(Equal(int32(2)))
			f.serve("orders/0")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonUnderReplicated, "1 of 1 partitions are under-replicated: 0")
			expectReason(f.clusterConditions(), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonUnderReplicated, "1 of 1 partitions are under-replicated: orders/0.")
			f.expectColumns(v1alpha1.ReasonReady, 1)

			t.Log("the pod's earlier exit is no evidence against the restarted broker")
			f.renew(replicas[0], "b", 2, "disk"+string('0'+replicas[0]), validThroughout)
			f.runIn(replicas[0], pod.UID)
			f.container(
				pod,
				corev1.ContainerState{
					Running: &corev1.ContainerStateRunning{
						StartedAt: metav1.NewTime(time.Now().Add(-time.Second)),
					},
				},
			)
			join(0, 1, 2)
			expect(replicas[0], 0, 1, 2)
			f.serve("orders/0")
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonInSync)
			expectReason(f.clusterConditions(), v1alpha1.ConditionReplicated, v1alpha1.ReasonInSync)
			f.expectColumns(v1alpha1.ReasonReady, 0)
		},
	)

	It("fails over when its leader's pod is deleted, although the Lease is still valid",
		func(t *testing.T) {
			pod := f.pod(replicas[0])
			f.runIn(replicas[0], pod.UID)
			Expect(api.Delete(context.Background(), pod, client.GracePeriodSeconds(0))).To(Succeed())
			f.eventuallyRenewing(func(g Gomega) {
				g.Expect(status(g).Leader).To(Equal(replicas[1]))
			}, replicas[0])
			expect(replicas[1], slices.Sorted(slices.Values(replicas[1:]))...)
		})

	It("fails over when its leader shuts down, and keeps the last leader when all brokers shut down",
		func(t *testing.T) {
			leave := func(r *v1alpha1.Registration) { r.Leaving = 1 }
			f.announce(replicas[0], leave)
			expect(replicas[1], slices.Sorted(slices.Values(replicas[1:]))...)
			f.serve("orders/0")
			f.announce(replicas[1], leave)
			expect(replicas[2], replicas[2])
			f.serve("orders/0")
			f.announce(replicas[2], leave)
			Consistently(func(g Gomega) { g.Expect(status(g).Leader).To(Equal(replicas[2])) },
				"300ms").Should(Succeed())
		})

	It("waits for the in-sync replica after all brokers have stopped", func(t *testing.T) {
		f.renew(replicas[1], "", 1, "disk"+string('0'+replicas[1]), validThroughout)
		expect(replicas[0], slices.Sorted(slices.Values([]int32{replicas[0], replicas[2]}))...)
		// The remaining two brokers stop one after the other. Only the broker that stops last has all
		// acknowledged records.
		f.renew(replicas[0], "", 1, "disk"+string('0'+replicas[0]), validThroughout)
		expect(replicas[2], replicas[2])
		f.renew(replicas[2], "", 1, "disk"+string('0'+replicas[2]), validThroughout)
		expect(-1, replicas[2])
		f.renew(replicas[0], "b", 2, "disk"+string('0'+replicas[0]), validThroughout)
		f.expectProblem("orders", v1alpha1.ReasonLeaderOffline, "continue with this broker as leader",
			v1alpha1.AnnotationAcceptDataLoss)
		f.renew(replicas[2], "b", 2, "disk"+string('0'+replicas[2]), validThroughout)
		expect(replicas[2], replicas[2])
	})

	It("elects a replica that lacks records when its Topic allows it", func(t *testing.T) {
		f.renew(replicas[1], "", 1, "disk", validThroughout)
		f.renew(replicas[2], "", 1, "disk", validThroughout)
		expect(replicas[0], replicas[0])
		f.renew(replicas[1], "b", 2, "disk1", validThroughout)
		f.renew(replicas[0], "", 1, "disk0", validThroughout)
		expect(-1, replicas[0])
		change(f, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.UncleanLeaderElection = new(true) })
		expect(replicas[1], replicas[1])
		f.expectEvent("orders", "Warning", v1alpha1.EventUncleanElection)
	})

	It("follows spec.replicas of its Topic down and up", func(t *testing.T) {
		change(f, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(1)) })
		Eventually(func(g Gomega) {
			g.Expect(f.replicas(g, "orders/0")).To(Equal(replicas[:1]))
			g.Expect(status(g).Replicas).To(Equal(replicas[:1]))
			g.Expect(inSync(status(g))).To(Equal(replicas[:1]))
		}).Should(Succeed())
		change(f, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
		Eventually(func(g Gomega) { g.Expect(status(g).Replicas).To(HaveLen(2)) }).Should(Succeed())
		expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
			v1alpha1.ReasonUnderReplicated)
	})
})

var _ = Describe("A Topic with the annotation heartwood.dev/reassign", func() {
	request := func(f *fixture, value string) {
		change(f, "orders", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Annotations = map[string]string{v1alpha1.AnnotationReassign: value}
		})
	}
	It("has its partitions assigned as requested, once, and says why it cannot", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(4)
		f.register(4)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 2, new(int32(2))
		})
		f.serve("orders/0")
		f.serve("orders/1")
		kept := f.replicas(Default, "orders/1")
		request(f, "0=3,2")
		Eventually(func(g Gomega) {
			g.Expect(f.replicas(g, "orders/0")).To(Equal([]int32{3, 2}))
			g.Expect(get(g, f, "orders", &v1alpha1.Topic{}).Annotations).NotTo(
				HaveKey(v1alpha1.AnnotationReassign))
		}).Should(Succeed())
		Expect(f.replicas(Default, "orders/1")).To(Equal(kept))

		t.Log("an invalid request is reported and kept")
		for value, message := range map[string]string{
			"1=3":   "partition 1 has 1 brokers, but spec.replicas is 2",
			"1=4,0": "broker 4 does not exist", "2=0,1": "no partition 2", "1": "PARTITION=VALUE",
		} {
			request(f, value)
			expectReason(f.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonInvalidReassignment, message)
		}
		Expect(f.replicas(Default, "orders/1")).To(Equal(kept))
	})
})

var _ = Describe("A LogCluster that is scaled down", func() {
	It("drains brokers before it removes their pods", func(t *testing.T) {
		f := newFixture(t)
		f.cluster(3)
		f.register(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Replicas,
				spec.Partitions = new(int32(2)), 3
		})
		f.topic("wide", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) { g.Expect(f.assignments(g)).To(HaveLen(4)) }).Should(Succeed())
		for name := range f.assignments(Default) {
			f.serve(name)
		}
		running := func(g Gomega) int32 {
			return *get(g, f, "main-broker",
				&appsv1.StatefulSet{}).Spec.Replicas
		}
		expectReason(f.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)
		change(f, "main", &v1alpha1.LogCluster{},
			func(cluster *v1alpha1.LogCluster) { cluster.Spec.Brokers = 2 })
		expectReason(f.clusterConditions(), v1alpha1.ConditionScaled,
			v1alpha1.ReasonReplicasDoNotFit, "wide")
		expectReason(f.topicConditions("wide"), v1alpha1.ConditionReady,
			v1alpha1.ReasonNotEnoughBrokers)
		Expect(running(Default)).To(Equal(int32(3)))

		change(f, "wide", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
		expectReason(f.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonDraining,
			"orders/")
		Expect(running(Default)).To(Equal(int32(3)))
		t.Log("the leaders add the new replicas to the ISR")
		Eventually(func(g Gomega) {
			for name, a := range f.assignments(g) {
				for _, id := range a.Replicas {
					g.Expect(id).To(BeNumerically("<", 2))
				}
				if slices.Equal(f.state(g, name).Replicas, a.Replicas) {
					continue
				}
				f.putState(name, func(_ Gomega, state *partitionset.State) {
					state.ISR = nil
					for _, id := range state.Replicas {
						state.ISR = append(state.ISR,
							placement.InSyncReplica{Broker: id, Epoch: 1, Directory: "disk"})
					}
				})
			}
			g.Expect(running(g)).To(Equal(int32(2)))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)
		Expect(get(Default, f, "main", &v1alpha1.LogCluster{}).Status.DrainingReplicas).To(BeZero())
	})
})
