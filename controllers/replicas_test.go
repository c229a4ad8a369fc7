package controllers

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// pod makes a broker's pod whose container runs since a minute ago, as the StatefulSet and the
// kubelet would.
func (w *world) pod(broker int32) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
			Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: brokerContainer,
			Image: "image"}}},
	}
	w.make(pod)
	w.container(
		pod,
		corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{
				StartedAt: metav1.NewTime(time.Now().Add(-time.Minute)),
			},
		},
	)
	return pod
}

// container does the kubelet's part: it says how a pod's broker is.
func (w *world) container(pod *corev1.Pod, state corev1.ContainerState) {
	GinkgoHelper()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: brokerContainer, State: state, Image: "image", ImageID: "image"},
		}}
	Expect(api.Status().Update(context.Background(), pod)).To(Succeed())
}

// ready does the kubelet's part, too.
func (w *world) ready(pod *corev1.Pod) {
	GinkgoHelper()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	Expect(api.Status().Update(context.Background(), pod)).To(Succeed())
}

// runsIn says in a broker's Lease which pod it runs in, and more.
func (w *world) annotate(broker int32, annotations map[string]string) {
	GinkgoHelper()
	change(w, v1alpha1.BrokerLeaseName("main", broker), &coordinationv1.Lease{},
		func(lease *coordinationv1.Lease) {
			lease.Spec.AcquireTime = new(metav1.NowMicro())
			for name, value := range annotations {
				lease.Annotations[name] = value
			}
		})
}

var _ = Describe("a Partition of three replicas", func() {
	var w *world
	status := func(g Gomega) v1alpha1.PartitionStatus {
		return get(g, w, "orders-0",
			&v1alpha1.Partition{}).Status
	}
	inSync := func(status v1alpha1.PartitionStatus) (ids []int32) {
		for _, replica := range status.ISR {
			ids = append(ids, replica.Broker)
		}
		slices.Sort(ids)
		return ids
	}
	// expect waits until a leader leads and others are in sync with it, and returns the leader
	// epoch.
	expect := func(leader int32, isr ...int32) (epoch int32) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			now := status(g)
			g.Expect(now.Leader).To(Equal(leader), "%+v", now)
			g.Expect(inSync(now)).To(Equal(isr))
			epoch = now.LeaderEpoch
		}).Should(Succeed())
		return epoch
	}
	join := func(ids ...int32) { // as the leader does once they have caught up
		GinkgoHelper()
		Eventually(func(g Gomega) {
			partition := get(g, w, "orders-0", &v1alpha1.Partition{})
			partition.Status.ISR = nil
			for _, id := range ids {
				lease := get(g, w, v1alpha1.BrokerLeaseName("main", id), &coordinationv1.Lease{})
				partition.Status.ISR = append(partition.Status.ISR, v1alpha1.InSyncReplica{
					Broker: id, BrokerEpoch: int64(*lease.Spec.LeaseTransitions),
					Directory: lease.Annotations[v1alpha1.AnnotationDirectory],
				})
			}
			g.Expect(api.Status().Update(context.Background(), partition)).To(Succeed())
		}).Should(Succeed())
	}
	var home []int32 // the replicas, the preferred leader first
	BeforeEach(func() {
		w = newWorld()
		w.cluster(3)
		for broker := range int32(3) {
			w.renew(broker, "a", 1, "disk"+string('0'+broker), aliveForLong)
		}
		w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) {
			home = get(g, w, "orders-0",
				&v1alpha1.Partition{}).Spec.Replicas
		}).Should(Succeed())
		expect(home[0], 0, 1, 2)
		w.serve("orders-0")
	})

	It(
		"is led by another at once when its leader's container ends, and by the first again when that is back and in sync",
		func() {
			pod := w.pod(home[0])
			w.annotate(home[0], map[string]string{v1alpha1.AnnotationPod: string(pod.UID)})
			rest := slices.Sorted(slices.Values(home[1:]))
			Consistently(func(g Gomega) { g.Expect(status(g).Leader).To(Equal(home[0])) },
				"300ms").Should(Succeed())
			w.container(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, FinishedAt: metav1.NewTime(time.Now().Add(time.Second)),
			}})
			epoch := expect(home[1], rest...)
			Expect(epoch).To(Equal(int32(2)))
			w.serve("orders-0")
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonUnderReplicated, "orders-0")

			By("the next start of it is another incarnation, which this pod event does not concern")
			w.renew(home[0], "b", 2, "disk"+string('0'+home[0]), aliveForLong)
			w.annotate(home[0], map[string]string{v1alpha1.AnnotationPod: string(pod.UID)})
			change(w, pod.Name, pod, func(*corev1.Pod) {})
			w.container(
				pod,
				corev1.ContainerState{
					Running: &corev1.ContainerStateRunning{
						StartedAt: metav1.NewTime(time.Now().Add(-time.Second)),
					},
				},
			)
			join(0, 1, 2)
			expect(home[0], 0, 1, 2)
			w.serve("orders-0")
			expectReason(w.topicConditions("orders"), v1alpha1.ConditionReplicated,
				v1alpha1.ReasonInSync)
		},
	)

	It("is led by another when its leader's pod is deleted, while the Lease runs on", func() {
		pod := w.pod(home[0])
		w.annotate(home[0], map[string]string{v1alpha1.AnnotationPod: string(pod.UID)})
		Expect(api.Delete(context.Background(), pod, client.GracePeriodSeconds(0))).To(Succeed())
		expect(home[1], slices.Sorted(slices.Values(home[1:]))...)
	})

	It("is led by another when its leader leaves, and by nobody else when all leave", func() {
		w.annotate(home[0], map[string]string{v1alpha1.AnnotationLeaving: "1"})
		expect(home[1], slices.Sorted(slices.Values(home[1:]))...)
		w.serve("orders-0")
		w.annotate(home[1], map[string]string{v1alpha1.AnnotationLeaving: "1"})
		expect(home[2], home[2])
		w.serve("orders-0")
		w.annotate(home[2], map[string]string{v1alpha1.AnnotationLeaving: "1"})
		Consistently(func(g Gomega) { g.Expect(status(g).Leader).To(Equal(home[2])) },
			"300ms").Should(Succeed())
	})

	It("keeps in sync who stopped in order, and not who did not", func() {
		w.renew(home[1], "", 1, "disk"+string('0'+home[1]), aliveForLong)
		expect(home[0], slices.Sorted(slices.Values([]int32{home[0], home[2]}))...)
		// The last two at once: who is back first has all that was acknowledged only if its disk
		// says so.
		w.renew(home[0], "", 1, "disk"+string('0'+home[0]), aliveForLong)
		expect(home[2], home[2])
		w.renew(home[2], "", 1, "disk"+string('0'+home[2]), aliveForLong)
		expect(-1, home[2])
		w.renew(home[0], "b", 2, "disk"+string('0'+home[0]), aliveForLong)
		expectReason(w.partitionConditions("orders-0"), v1alpha1.ConditionReady,
			v1alpha1.ReasonLeaderOffline, "to go on with what it has",
			v1alpha1.AnnotationAcceptDataLoss)
		w.renew(home[2], "b", 2, "disk"+string('0'+home[2]), aliveForLong)
		expect(home[2], home[2])
	})

	It("goes on without records when its Topic or somebody would rather", func() {
		w.renew(home[1], "", 1, "disk", aliveForLong)
		w.renew(home[2], "", 1, "disk", aliveForLong)
		expect(home[0], home[0])
		w.renew(home[1], "b", 2, "disk1", aliveForLong)
		w.renew(home[0], "", 1, "disk0", aliveForLong)
		expect(-1, home[0])
		change(w, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.UncleanLeaderElection = new(true) })
		expect(home[1], home[1])
		w.expectEvent("orders-0", "Warning", v1alpha1.EventUncleanElection)
	})

	It("has fewer replicas when its Topic wants fewer, and more again", func() {
		change(w, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(1)) })
		Eventually(func(g Gomega) {
			partition := get(g, w, "orders-0", &v1alpha1.Partition{})
			g.Expect(partition.Spec.Replicas).To(Equal(home[:1]))
			g.Expect(partition.Status.Replicas).To(Equal(home[:1]))
			g.Expect(inSync(partition.Status)).To(Equal(home[:1]))
		}).Should(Succeed())
		change(w, "orders", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
		Eventually(func(g Gomega) { g.Expect(status(g).Replicas).To(HaveLen(2)) }).Should(Succeed())
		expectReason(w.topicConditions("orders"), v1alpha1.ConditionReplicated,
			v1alpha1.ReasonUnderReplicated)
	})
})

var _ = Describe("a LogCluster that shrinks", func() {
	It("drains the brokers that go before their pods do", func() {
		w := newWorld()
		w.cluster(3)
		for broker := range int32(3) {
			w.renew(broker, "a", 1, "disk", aliveForLong)
		}
		w.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Replicas,
				spec.Partitions = new(int32(2)), 3
		})
		w.topic("wide", func(spec *v1alpha1.TopicSpec) { spec.Replicas = new(int32(3)) })
		Eventually(func(g Gomega) { g.Expect(w.partitions(g)).To(HaveLen(4)) }).Should(Succeed())
		for _, partition := range w.partitions(Default) {
			w.serve(partition.Name)
		}
		running := func(g Gomega) int32 {
			return *get(g, w, "main-broker",
				&appsv1.StatefulSet{}).Spec.Replicas
		}
		expectReason(w.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)
		change(w, "main", &v1alpha1.LogCluster{},
			func(cluster *v1alpha1.LogCluster) { cluster.Spec.Brokers = 2 })
		expectReason(w.clusterConditions(), v1alpha1.ConditionScaled,
			v1alpha1.ReasonReplicasDoNotFit, "wide")
		expectReason(w.topicConditions("wide"), v1alpha1.ConditionReady,
			v1alpha1.ReasonNotEnoughBrokers)
		Expect(running(Default)).To(Equal(int32(3)))

		change(w, "wide", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Spec.Replicas = new(int32(2)) })
		expectReason(w.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonDraining,
			"orders-")
		Expect(running(Default)).To(Equal(int32(3)))
		By("the leaders take the new replicas in")
		Eventually(func(g Gomega) {
			for _, partition := range w.partitions(g) {
				for _, id := range partition.Spec.Replicas {
					g.Expect(id).To(BeNumerically("<", 2))
				}
				if slices.Equal(partition.Status.Replicas, partition.Spec.Replicas) {
					continue
				}
				partition.Status.ISR = nil
				for _, id := range partition.Status.Replicas {
					partition.Status.ISR = append(partition.Status.ISR,
						v1alpha1.InSyncReplica{Broker: id, BrokerEpoch: 1, Directory: "disk"})
				}
				g.Expect(api.Status().Update(context.Background(), &partition)).To(Succeed())
			}
			g.Expect(running(g)).To(Equal(int32(2)))
		}).Should(Succeed())
		expectReason(w.clusterConditions(), v1alpha1.ConditionScaled, v1alpha1.ReasonScaled)
		Expect(get(Default, w, "main", &v1alpha1.LogCluster{}).Status.Draining).To(BeZero())
	})
})
