package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// podOnNode plays the StatefulSet controller, the scheduler and the kubelet: it creates a broker's
// ready pod on a node. The pod is deleted only after its processes have exited.
func (f *fixture) podOnNode(id int32, revision string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", id),
			Labels: map[string]string{v1alpha1.LabelCluster: "main",
				appsv1.ControllerRevisionHashLabelKey: revision}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{
			{Name: brokerstate.BrokerContainer, Image: "image"}}},
	}
	f.create(pod)
	f.container(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{
		StartedAt: metav1.Now()}})
	f.ready(pod)
	return pod
}

// stopping waits until a broker's pod is being deleted for the replacement of the broker's volume.
func (f *fixture) stopping(id int32) *corev1.Pod {
	pod := &corev1.Pod{}
	Eventually(func(g Gomega) {
		pod = get(g, f, v1alpha1.BrokerLeaseName("main", id), &corev1.Pod{})
		g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
		g.Expect(pod.Finalizers).To(Equal([]string{v1alpha1.FinalizerReplaceVolume}))
	}).Should(Succeed())
	return pod
}

// exit plays the kubelet after the processes of a deleted pod have exited.
func (f *fixture) exit(pod *corev1.Pod) {
	f.container(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	Expect(api.Delete(context.Background(), pod,
		client.GracePeriodSeconds(0))).To(Succeed())
}

// claimOf returns a broker's claim.
func (f *fixture) claimOf(g Gomega, id int32) *corev1.PersistentVolumeClaim {
	return get(g, f, v1alpha1.VolumeClaimName("main", id), &corev1.PersistentVolumeClaim{})
}

// putISR plays a partition's leader that changes the ISR.
func (f *fixture) putISR(name string, change func([]int32) []int32) {
	f.putState(name, func(_ Gomega, state *partitionset.State) {
		var ids []int32
		for _, member := range state.ISR {
			ids = append(ids, member.Broker)
		}
		isr := []placement.InSyncReplica{}
		for _, id := range change(ids) {
			isr = append(isr, placement.InSyncReplica{Broker: id, Epoch: 1, Directory: "disk"})
		}
		state.ISR = isr
	})
}

// invalidEntry writes an entry that cannot be parsed into a set that does not contain the given
// partition. If the text is empty, it removes the entry.
func (f *fixture) invalidEntry(other, text string) {
	number := (partitionset.Number(parse(other), v1alpha1.PartitionSets) + 1) % v1alpha1.PartitionSets
	Eventually(func(g Gomega) {
		set := get(g, f, v1alpha1.PartitionSetName("main", number), &v1alpha1.PartitionSet{})
		if set.Status.Partitions == nil {
			set.Status.Partitions = map[string]string{}
		}
		if set.Status.Partitions["invalid/0"] = text; text == "" {
			delete(set.Status.Partitions, "invalid/0")
		}
		g.Expect(api.Status().Update(context.Background(), set)).To(Succeed())
	}).Should(Succeed())
}

var _ = Describe("Volumes of another StorageClass", func() {
	var f *fixture
	var old, next string
	BeforeEach(func(t *testing.T) {
		f = newFixture(t)
		old, next = f.class("old", false), f.class("next", false)
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec: v1alpha1.LogClusterSpec{Brokers: 3, Storage: v1alpha1.Storage{
				Size: resource.MustParse("10Gi"), ClassName: &old}}})
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		for id := range int32(3) {
			hosts.set(render.HTTPAddress("main", f.namespace, id), server.Listener.Addr().String())
			f.renew(id, "broker", 1, "disk", validThroughout)
			f.claim(id)
		}
		f.expectSeen(3)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions = 1
			spec.Replicas, spec.MinInSyncReplicas = new(int32(3)), new(int32(2))
		})
		f.revision("first")
		for id := range int32(3) {
			f.podOnNode(id, "first")
		}
		f.serve("orders/0")
		f.adopt("first")
		f.expectRollout(v1alpha1.ReasonComplete)
	})
	// changeClass changes the StorageClass, and waits for the next StatefulSet.
	changeClass := func(class string) {
		before := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Storage.ClassName = &class
		})
		f.collect(before.UID)
		f.expectReplaced(before.UID)
		f.adopt("first")
	}
	// order returns the brokers in the order in which their volumes are replaced.
	order := func() []int32 {
		leader := f.state(Default, "orders/0").Leader
		ids := slices.DeleteFunc([]int32{2, 1, 0}, func(id int32) bool { return id == leader })
		return append(ids, leader)
	}

	It("replace the others one by one, each when all is in sync", func(t *testing.T) {
		changeClass(next)
		ids := order()
		for i, id := range ids[:2] {
			pod := f.stopping(id)
			f.expectRollout(v1alpha1.ReasonRestarting, "its volume is replaced", next)
			for _, other := range ids {
				Expect(f.claimOf(Default, other).DeletionTimestamp).To(BeNil())
			}
			t.Log("keeping the claim while the broker runs, or is in an ISR")
			f.putISR("orders/0", func(isr []int32) []int32 {
				return slices.DeleteFunc(isr, func(member int32) bool { return member == id })
			})
			Consistently(func(g Gomega) {
				g.Expect(f.claimOf(g, id).DeletionTimestamp).To(BeNil())
			}, "1500ms").Should(Succeed())
			claim := f.claimOf(Default, id)
			f.exit(pod)
			Eventually(func(g Gomega) {
				g.Expect(f.claimOf(g, id).DeletionTimestamp).NotTo(BeNil())
			}).Should(Succeed())
			Expect(f.lease(Default, id).Annotations).To(
				HaveKeyWithValue(v1alpha1.AnnotationVolumeConsent, string(claim.UID)))
			f.expectPods(slices.DeleteFunc([]int32{0, 1, 2},
				func(other int32) bool { return other == id })...)

			t.Log("creating the next claim and pod, as the controllers of Kubernetes do")
			change(f, v1alpha1.VolumeClaimName("main", id), &corev1.PersistentVolumeClaim{},
				func(claim *corev1.PersistentVolumeClaim) { claim.Finalizers = nil })
			Expect(*f.claim(id).Spec.StorageClassName).To(Equal(next))
			f.podOnNode(id, "first")
			f.expectRollout(v1alpha1.ReasonWaiting, "partition orders/0")
			Consistently(func(g Gomega) { f.expectPods(0, 1, 2) }, "1s").Should(Succeed())
			Eventually(func(g Gomega) {
				brokers := get(g, f, "main", &v1alpha1.LogCluster{}).Status.Brokers
				g.Expect(brokers[id].RestartReason).To(BeEmpty())
				g.Expect(brokers[ids[i+1]].RestartReason).To(
					Equal(v1alpha1.RestartStorageClassChanged))
			}).Should(Succeed())
			f.putISR("orders/0", func(isr []int32) []int32 { return append(isr, id) })
		}

		t.Log("leaving the last broker its volume, if the class is changed back meanwhile")
		f.stopping(ids[2])
		before := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Storage.ClassName = &old
		})
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, v1alpha1.BrokerLeaseName("main", ids[2]),
				&corev1.Pod{}).Finalizers).To(BeEmpty())
		}).Should(Succeed())
		Expect(f.claimOf(Default, ids[2]).DeletionTimestamp).To(BeNil())
		f.collect(before.UID)
	})

	It("do not replace the only replica of a partition, which is named", func(t *testing.T) {
		f.topic("single", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions, spec.Replicas = 3, new(int32(1))
			for id := range int32(3) {
				spec.InitialReplicas = append(spec.InitialReplicas,
					v1alpha1.InitialReplicas{Partition: id, Replicas: []int32{id}})
			}
		})
		for _, partition := range []string{"single/0", "single/1", "single/2"} {
			Eventually(func(g Gomega) { f.state(g, partition) }).Should(Succeed())
			f.serve(partition)
		}
		changeClass(next)
		f.expectRollout(v1alpha1.ReasonWaiting, "has the only replica of partition single/")
		f.expectPods(0, 1, 2)
	})

	It("do not replace anything with a class that does not exist", func(t *testing.T) {
		changeClass("no-such-class")
		f.expectRollout(v1alpha1.ReasonWaiting, "StorageClass no-such-class does not exist")
		f.expectPods(0, 1, 2)
	})

	It("wait while not all partitions are known", func(t *testing.T) {
		changeClass(next)
		id := order()[0]
		pod := f.stopping(id)
		f.putISR("orders/0", func(isr []int32) []int32 {
			return slices.DeleteFunc(isr, func(member int32) bool { return member == id })
		})
		f.invalidEntry("orders/0", "no state")
		f.exit(pod)
		Consistently(func(g Gomega) {
			g.Expect(f.claimOf(g, id).DeletionTimestamp).To(BeNil())
		}, "1500ms").Should(Succeed())
		f.invalidEntry("orders/0", "")
		Eventually(func(g Gomega) {
			g.Expect(f.claimOf(g, id).DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
	})

	It("do not begin while not all partitions are known", func(t *testing.T) {
		f.invalidEntry("orders/0", "no state")
		changeClass(next)
		f.expectRollout(v1alpha1.ReasonWaiting, "not all partitions are known")
		f.expectPods(0, 1, 2)
	})

	It("leave a broker its volume while the LogCluster is paused, or deleted", func(t *testing.T) {
		changeClass(next)
		pod := f.stopping(order()[0])
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		})
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, pod.Name, &corev1.Pod{}).Finalizers).To(BeEmpty())
		}).Should(Succeed())
		f.exit(get(Default, f, pod.Name, &corev1.Pod{}))
		f.podOnNode(order()[0], "first")

		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Annotations = nil
		})
		f.stopping(order()[0])
		Expect(api.Delete(context.Background(),
			get(Default, f, "main", &v1alpha1.LogCluster{}))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, pod.Name, &corev1.Pod{}).Finalizers).To(BeEmpty())
		}).Should(Succeed())
		Expect(f.claimOf(Default, order()[0]).DeletionTimestamp).To(BeNil())
	})
})
