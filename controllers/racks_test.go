package controllers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// noNodes is an API server as an operator with rights in some namespaces only has it.
type noNodes struct {
	client.Reader
	asked int
}

func (n *noNodes) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	n.asked++
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node", nil)
}

var _ = Describe("a broker's rack", func() {
	var w *world
	rackOf := func(g Gomega, broker int32) string {
		return get(g, w, v1alpha1.BrokerLeaseName("main", broker),
			&coordinationv1.Lease{}).Annotations[v1alpha1.AnnotationRack]
	}
	// runs makes a broker that renews its Lease from a pod on a node; the cluster's name for racks
	// is zone.
	runs := func(broker int32, labels map[string]string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: labels}}
		Expect(api.Create(context.Background(), node)).To(Succeed())
		DeferCleanup(func() { Expect(api.Delete(context.Background(), node)).To(Succeed()) })
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BrokerLeaseName("main", broker),
				Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
			Spec: corev1.PodSpec{NodeName: node.Name,
				Containers: []corev1.Container{{Name: brokerContainer, Image: "image"}}},
		}
		w.make(pod)
		w.renew(broker, "someone", 1, "disk", aliveForLong)
		w.annotate(broker, map[string]string{v1alpha1.AnnotationPod: string(pod.UID)})
	}
	BeforeEach(func() {
		w = newWorld()
		w.make(&v1alpha1.LogCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "main"},
			Spec:       v1alpha1.LogClusterSpec{Brokers: 3, RackKey: "example.com/room"},
		})
	})

	It("is its node's label, and replicas are spread over racks", func() {
		for broker, room := range []string{"east", "east", "west"} {
			runs(int32(broker),
				map[string]string{"example.com/room": room, corev1.LabelTopologyZone: "another"})
			Eventually(func(g Gomega) {
				g.Expect(rackOf(g,
					int32(broker))).To(Equal(room))
			}).Should(Succeed())
		}
		holder := *get(Default, w, v1alpha1.BrokerLeaseName("main", 2),
			&coordinationv1.Lease{}).Spec.HolderIdentity
		Expect(holder).To(Equal("someone"), "the Lease stays the broker's")
		w.topic("orders", func(spec *v1alpha1.TopicSpec) {
			spec.Partitions = 4
			spec.Replicas = new(int32(2))
		})
		Eventually(func(g Gomega) {
			partitions := w.partitions(g)
			g.Expect(partitions).To(HaveLen(4))
			for _, p := range partitions {
				g.Expect(p.Spec.Replicas).To(ContainElement(int32(2)),
					"the only broker in the west: %v", p.Spec.Replicas)
			}
		}).Should(Succeed())
	})

	It("goes when the node has none", func() {
		runs(0, nil)
		w.annotate(0, map[string]string{v1alpha1.AnnotationRack: "of the node before"})
		Eventually(func(g Gomega) { g.Expect(rackOf(g, 0)).To(BeEmpty()) }).Should(Succeed())
	})

	It("stays as it is where nodes cannot be read, which are asked for once", func() {
		runs(0, map[string]string{"example.com/room": "east"})
		// by the suite's own operator
		Eventually(func(g Gomega) { g.Expect(rackOf(g, 0)).To(Equal("east")) }).Should(Succeed())
		nodes := &noNodes{}
		r := newRacks(api, nodes)
		key := types.NamespacedName{Namespace: w.namespace,
			Name: v1alpha1.BrokerLeaseName("main", 0)}
		for range 3 {
			Expect(r.write(context.Background(), key, "main")).To(Succeed())
		}
		Expect(nodes.asked).To(Equal(1))
		Expect(rackOf(Default, 0)).To(Equal("east"))
	})
})
