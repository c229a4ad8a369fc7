package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

var _ = Describe("a LogCluster", func() {
	var w *world
	BeforeEach(func() { w = newWorld() })

	// rendered reads what the operator made, as it is in the API server.
	rendered := func(g Gomega, cluster *v1alpha1.LogCluster) []client.Object {
		objects := render.Cluster(cluster, render.Settings{})
		for _, object := range objects {
			g.Expect(api.Get(context.Background(), client.ObjectKeyFromObject(object),
				object)).To(Succeed())
		}
		return objects
	}

	It("gets all its objects, which go when it goes", func() {
		cluster := w.cluster(3)
		Eventually(func(g Gomega) {
			for _, object := range rendered(g, cluster) {
				g.Expect(metav1.IsControlledBy(object, cluster)).To(BeTrue(), object.GetName())
			}
		}).Should(Succeed())
		brokers := get(Default, w, "main-broker", &appsv1.StatefulSet{})
		Expect(*brokers.Spec.Replicas).To(Equal(int32(3)))
		Expect(
			brokers.Spec.Template.Spec.Containers[0].Image,
		).To(Equal("registry.example/heartwood:test"))
	})

	It("takes back what others change or delete", func() {
		cluster := w.cluster(1)
		Eventually(func(g Gomega) { rendered(g, cluster) }).Should(Succeed())
		change(w, "main-broker", &appsv1.StatefulSet{},
			func(set *appsv1.StatefulSet) { set.Spec.Replicas = new(int32(0)) })
		Expect(api.Delete(context.Background(),
			get(Default, w, "main-broker", &policyv1.PodDisruptionBudget{}))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(*get(g, w, "main-broker",
				&appsv1.StatefulSet{}).Spec.Replicas).To(Equal(int32(1)))
			get(g, w, "main-broker", &policyv1.PodDisruptionBudget{})
		}).Should(Succeed())
	})

	It("tells in an event when an object cannot be applied", func() {
		w.make(&corev1.Service{ // somebody else's
			ObjectMeta: metav1.ObjectMeta{Name: "main-bootstrap",
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "1",
					Controller: new(true),
				}}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
		w.cluster(1)
		w.expectEvent("main", "Warning", v1alpha1.EventApplyFailed)
	})

	It("is applied again without a change when nothing is to change", func() {
		cluster := w.cluster(1)
		Eventually(func(g Gomega) { rendered(g, cluster) }).Should(Succeed())
		versions := func() map[string]string {
			versions := map[string]string{}
			for _, object := range rendered(Default, cluster) {
				versions[fmt.Sprintf("%T %s", object,
					object.GetName())] = object.GetResourceVersion()
			}
			return versions
		}
		former := versions()
		before := reconciled(Default, "logcluster")
		change(w, "main", cluster, func(cluster *v1alpha1.LogCluster) { // nothing that a pod sees
			cluster.Spec.Cleaner = &v1alpha1.Cleaner{Workers: new(int32(2))}
		})
		Eventually(func(g Gomega) {
			g.Expect(reconciled(g, "logcluster")).To(BeNumerically(">",
				before))
		}).Should(Succeed())
		Expect(versions()).To(Equal(former))
	})

	It("says how many brokers are ready, what it holds and where it is", func() {
		w.cluster(2)
		w.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		expectReason(w.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonBrokersNotReady,
			"0 of 2", "kubectl get pods")
		Eventually(func(g Gomega) {
			status := get(g, w, "main", &v1alpha1.LogCluster{}).Status
			g.Expect([]int32{status.Topics, status.Partitions,
				status.UnderReplicated}).To(Equal([]int32{1, 2, 2}))
			g.Expect(status.Bootstrap).To(Equal("main-bootstrap." + w.namespace + ".svc:9092"))
		}).Should(Succeed())

		// Envtest has no StatefulSet controller: the spec does its part.
		Eventually(func(g Gomega) {
			brokers := get(g, w, "main-broker", &appsv1.StatefulSet{})
			brokers.Status = appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2,
				ObservedGeneration: brokers.Generation}
			g.Expect(api.Status().Update(context.Background(), brokers)).To(Succeed())
		}).Should(Succeed())
		w.ready(w.pod(0))
		w.ready(w.pod(1))
		w.renew(0, "a", 1, "disk", aliveForLong)
		w.renew(1, "a", 1, "disk", aliveForLong)
		expectReason(w.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		w.expectEvent("main", "Normal", v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			g.Expect(get(g, w, "main", &v1alpha1.LogCluster{}).Status.UnderReplicated).To(BeZero())
		}).Should(Succeed())

		// A node loses its power: the kubelet says no more of the pod, and the broker renews no
		// more.
		w.renew(1, "a", 1, "disk", time.Second)
		expectReason(w.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonBrokersNotReady,
			"1 of 2", "brokers [1] do not renew")
		Expect(get(Default, w, "main",
			&v1alpha1.LogCluster{}).Status.ReadyBrokers).To(Equal(int32(1)))
		w.renew(1, "a", 1, "disk", aliveForLong)
		expectReason(w.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	It("runs pods that the restricted profile of the Pod Security Standards takes", func() {
		namespace := get(Default, &world{}, w.namespace, &corev1.Namespace{})
		namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
		Expect(api.Update(context.Background(), namespace)).To(Succeed())
		w.cluster(1)
		var brokers *appsv1.StatefulSet
		Eventually(func(g Gomega) {
			brokers = get(g, w, "main-broker",
				&appsv1.StatefulSet{})
		}).Should(Succeed())
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker-0", Namespace: w.namespace,
				Labels: brokers.Spec.Template.Labels},
			Spec: *brokers.Spec.Template.Spec.DeepCopy(),
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes,
			corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
					ClaimName: "data-main-broker-0",
				},
			}})
		Expect(api.Create(context.Background(), pod, client.DryRunAll)).To(Succeed())
		pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		pod.ResourceVersion = ""
		Expect(apierrors.IsForbidden(api.Create(context.Background(), pod,
			client.DryRunAll))).To(BeTrue(), "the profile is enforced")
	})

	It("lets its brokers do what they must, and no more", func() {
		w.cluster(2)
		w.renew(0, "a", 1, "disk", aliveForLong)
		w.topic("orders", nil)
		w.serve("orders-0")
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = "system:serviceaccount:" + w.namespace + ":main-broker"
		broker, err := client.New(as, client.Options{Scheme: api.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		ctx, in := context.Background(), client.InNamespace(w.namespace)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Name: name,
				Namespace: w.namespace}
		}

		for _, list := range []client.ObjectList{
			&v1alpha1.LogClusterList{}, &v1alpha1.TopicList{}, &v1alpha1.PartitionList{},
			&coordinationv1.LeaseList{},
		} {
			// once the role is bound
			Eventually(func() error { return broker.List(ctx, list, in) }).Should(Succeed())
		}
		Expect(broker.Create(ctx,
			&coordinationv1.Lease{ObjectMeta: meta("main-broker-1")})).To(Succeed())
		Expect(broker.Update(ctx,
			get(Default, w, "main-broker-0", &coordinationv1.Lease{}))).To(Succeed())
		topic := &v1alpha1.Topic{ObjectMeta: meta("by-kafka"),
			Spec: v1alpha1.TopicSpec{Cluster: "main"}}
		Expect(broker.Create(ctx, topic)).To(Succeed())
		Expect(broker.Delete(ctx, topic)).To(Succeed())
		partition := get(Default, w, "orders-0", &v1alpha1.Partition{})
		Expect(broker.Status().Update(ctx, partition)).To(Succeed())

		w.make(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses"}})
		for what, err := range map[string]error{
			"another's lease": broker.Update(ctx,
				get(Default, w, "somebody-elses", &coordinationv1.Lease{})),
			"a partition's spec": broker.Update(ctx,
				get(Default, w, "orders-0", &v1alpha1.Partition{})),
			"a topic's spec": broker.Update(ctx, get(Default, w, "orders", &v1alpha1.Topic{})),
			"a topic's status": broker.Status().Update(ctx,
				get(Default, w, "orders", &v1alpha1.Topic{})),
			"a cluster": broker.Delete(ctx,
				get(Default, w, "main", &v1alpha1.LogCluster{})),
			"secrets":          broker.List(ctx, &corev1.SecretList{}, in),
			"pods":             broker.List(ctx, &corev1.PodList{}, in),
			"other namespaces": broker.List(ctx, &v1alpha1.TopicList{}),
		} {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		}
	})

	It("tells how far a clean is that was asked for by annotation", func() {
		w.cluster(1)
		w.topic("tickets", func(spec *v1alpha1.TopicSpec) {
			spec.CleanupPolicy,
				spec.Partitions = v1alpha1.CleanupCompact, 2
		})
		var done atomic.Pointer[string]
		done.Store(new(""))
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			_ *http.Request) {
			// as a broker learns it
			asked := get(Default, w, "tickets", &v1alpha1.Topic{}).CleanNow()
			rows := make([]report.Partition, 2)
			for i := range rows {
				compaction := &report.Compaction{Phase: "idle", Reason: v1alpha1.ReasonUpToDate}
				switch {
				case asked != "" && asked == *done.Load():
					compaction.CleanNow = &report.CleanNow{Value: asked, State: report.CleanNowDone,
						Finished: new(float64(1_000_000 + i))}
				case asked != "":
					compaction.CleanNow = &report.CleanNow{Value: asked,
						State: report.CleanNowRunning}
				}
				rows[i] = report.Partition{Topic: "tickets", Partition: int32(i), Leader: true,
					Compaction: compaction}
			}
			_ = json.NewEncoder(out).Encode(report.Partitions{Partitions: rows})
		}))
		DeferCleanup(server.Close)
		hosts.set(render.HTTPAddress("main", w.namespace, 0), server.Listener.Addr().String())
		expect := func(want v1alpha1.CleanNowStatus) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				compaction := get(g, w, "tickets", &v1alpha1.Topic{}).Status.Compaction
				g.Expect(compaction).NotTo(BeNil())
				g.Expect(compaction.CleanNow).NotTo(BeNil())
				got := *compaction.CleanNow
				got.Finished = nil
				g.Expect(got).To(Equal(want))
			}).Should(Succeed())
		}
		ask := func(value string) {
			change(w, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
				topic.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: value}
			})
		}
		ask("monday")
		expect(v1alpha1.CleanNowStatus{Value: "monday", State: v1alpha1.CleanNowRunning,
			Replicas: "0/2"})
		done.Store(new("monday"))
		expect(v1alpha1.CleanNowStatus{Value: "monday", State: v1alpha1.CleanNowDone,
			Replicas: "2/2"})
		Expect(get(
			Default,
			w,
			"tickets",
			&v1alpha1.Topic{},
		).Status.Compaction.CleanNow.Finished.Unix()).To(Equal(int64(1_000_001)))
		ask("tuesday")
		expect(v1alpha1.CleanNowStatus{Value: "tuesday", State: v1alpha1.CleanNowRunning,
			Replicas: "0/2"})
		change(w, "tickets", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Annotations = nil })
		Eventually(func(g Gomega) {
			g.Expect(get(g, w, "tickets", &v1alpha1.Topic{}).Status.Compaction.CleanNow).To(BeNil())
		}).Should(Succeed())
	})

	It("is asked how its cleaning goes", func() {
		w.cluster(2)
		w.topic(
			"tickets",
			func(spec *v1alpha1.TopicSpec) { spec.CleanupPolicy = v1alpha1.CleanupCompact },
		)
		w.topic("events", nil)
		conditions := w.topicConditions("tickets")
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonUnknown,
			"0 of 2 brokers answered")

		row := report.Partition{Topic: "tickets", Leader: true, Compaction: &report.Compaction{
			DirtyRatio: 0.37, Phase: "idle", Reason: v1alpha1.ReasonBelowDirtyRatio,
			ReclaimableBytes: new(int64(1 << 20)),
		}}
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			request *http.Request) {
			if request.URL.Path != "/api/v1/partitions" {
				http.NotFound(out, request)
				return
			}
			_ = json.NewEncoder(out).Encode(report.Partitions{Partitions: []report.Partition{row}})
		}))
		DeferCleanup(server.Close)
		hosts.set(render.HTTPAddress("main", w.namespace, 1), server.Listener.Addr().String())
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonBelowDirtyRatio,
			"minDirtyPercent")
		Eventually(func(g Gomega) {
			summary := get(g, w, "tickets", &v1alpha1.Topic{}).Status.Compaction
			g.Expect(summary).NotTo(BeNil())
			g.Expect([]string{summary.Dirty, summary.Phase,
				summary.Reclaimable.String()}).To(Equal([]string{"37%", "Idle", "1Mi"}))
		}).Should(Succeed())
		Expect(get(Default, w, "events", &v1alpha1.Topic{}).Status.Compaction).To(BeNil())
		Expect(api.Delete(context.Background(),
			get(Default, w, "events", &v1alpha1.Topic{}))).To(Succeed())
		Eventually(func(g Gomega) {
			cells := w.printed(g, "topics")
			g.Expect([]any{cells["Name"], cells["Dirty"], cells["Reclaimable"], cells["Cleaner"],
				cells["Why"]}).
				To(Equal([]any{"tickets", "37%", "1Mi", "Idle", "BelowDirtyRatio"}))
		}).Should(Succeed())

		version := get(Default, w, "tickets", &v1alpha1.Topic{}).ResourceVersion
		before := reconciled(Default, "topic")
		Eventually(func(g Gomega) {
			g.Expect(reconciled(g, "topic")).To(BeNumerically(">",
				before+5))
		}).Should(Succeed())
		Expect(get(Default, w, "tickets", &v1alpha1.Topic{}).ResourceVersion).To(Equal(version),
			"nothing changed")

		server.Close()
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonUnknown,
			"0 of 2 brokers answered")
	})
})
