package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

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
	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("A LogCluster", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	// rendered returns the objects that the operator creates for a LogCluster, read from the API
	// server.
	rendered := func(g Gomega, cluster *v1alpha1.LogCluster) []client.Object {
		objects := render.Cluster(cluster, render.Settings{})
		for _, object := range objects {
			g.Expect(api.Get(context.Background(), client.ObjectKeyFromObject(object),
				object)).To(Succeed())
		}
		return objects
	}

	It("owns all objects that the operator creates", func(t *testing.T) {
		cluster := f.cluster(3)
		Eventually(func(g Gomega) {
			for _, object := range rendered(g, cluster) {
				g.Expect(metav1.IsControlledBy(object, cluster)).To(BeTrue(), object.GetName())
			}
		}).Should(Succeed())
		brokers := get(Default, f, "main-broker", &appsv1.StatefulSet{})
		Expect(*brokers.Spec.Replicas).To(Equal(int32(3)))
		Expect(
			brokers.Spec.Template.Spec.Containers[0].Image,
		).To(Equal("registry.example/heartwood:test"))
	})

	It("has metrics of its brokers and conditions", func(t *testing.T) {
		f.cluster(3)
		Eventually(func(g Gomega) {
			g.Expect(series(g, "heartwood_logcluster_brokers", "namespace",
				f.namespace)).To(Equal([]float64{3}))
			g.Expect(series(g, "heartwood_logcluster_ready_brokers", "namespace",
				f.namespace)).To(Equal([]float64{0}))
			cluster := get(g, f, "main", &v1alpha1.LogCluster{})
			g.Expect(cluster.Status.Conditions).NotTo(BeEmpty())
			g.Expect(series(g, "heartwood_logcluster_condition", "namespace",
				f.namespace)).To(HaveLen(len(cluster.Status.Conditions)))
		}).Should(Succeed())
	})

	It("reverts changes and deletions of its objects", func(t *testing.T) {
		cluster := f.cluster(1)
		Eventually(func(g Gomega) { rendered(g, cluster) }).Should(Succeed())
		change(f, "main-broker", &appsv1.StatefulSet{},
			func(set *appsv1.StatefulSet) { set.Spec.Replicas = new(int32(0)) })
		Expect(api.Delete(context.Background(),
			get(Default, f, "main-broker", &policyv1.PodDisruptionBudget{}))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(*get(g, f, "main-broker",
				&appsv1.StatefulSet{}).Spec.Replicas).To(Equal(int32(1)))
			get(g, f, "main-broker", &policyv1.PodDisruptionBudget{})
		}).Should(Succeed())
	})

	It("has an event when an object cannot be applied", func(t *testing.T) {
		// The operator cannot apply this Service, because it belongs to another controller.
		f.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "main-bootstrap",
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "1",
					Controller: new(true),
				}}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
		f.cluster(1)
		f.expectEvent("main", "Warning", v1alpha1.EventApplyFailed)
	})

	It("is applied again without writes when nothing has changed", func(t *testing.T) {
		cluster := f.cluster(1)
		Eventually(func(g Gomega) { rendered(g, cluster) }).Should(Succeed())
		f.expectObserved()
		versions := func() map[string]string {
			versions := map[string]string{}
			for _, object := range rendered(Default, cluster) {
				versions[fmt.Sprintf("%T %s", object,
					object.GetName())] = object.GetResourceVersion()
			}
			return versions
		}
		before := versions()
		change(f, "main", cluster,
			// This setting is not part of the rendered objects.
			func(cluster *v1alpha1.LogCluster) {
				cluster.Spec.Cleaner = &v1alpha1.Cleaner{Workers: new(int32(2))}
			})
		f.expectObserved()
		Expect(versions()).To(Equal(before))
	})

	It("reports ready brokers, topics, partitions and its bootstrap address", func(t *testing.T) {
		f.cluster(2)
		f.topic("orders", func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 })
		expectReason(f.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonBrokersNotReady,
			"0 of 2", "kubectl get pods")
		Eventually(func(g Gomega) {
			status := get(g, f, "main", &v1alpha1.LogCluster{}).Status
			g.Expect([]int32{status.Topics, status.Partitions,
				status.UnderReplicatedPartitions}).To(Equal([]int32{1, 2, 2}))
			g.Expect(status.Bootstrap).To(Equal("main-bootstrap." + f.namespace + ".svc:9092"))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionReplicated,
			v1alpha1.ReasonUnderReplicated, "2 of 2", "orders/0 orders/1")

		// The test writes the StatefulSet's status, because envtest runs no StatefulSet controller.
		Eventually(func(g Gomega) {
			brokers := get(g, f, "main-broker", &appsv1.StatefulSet{})
			brokers.Status = appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2,
				ObservedGeneration: brokers.Generation}
			g.Expect(api.Status().Update(context.Background(), brokers)).To(Succeed())
		}).Should(Succeed())
		f.ready(f.pod(0))
		f.ready(f.pod(1))
		f.renew(0, "a", 1, "disk", validThroughout)
		f.renew(1, "a", 1, "disk", validThroughout)
		expectReason(f.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		f.expectEvent("main", "Normal", v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "main", &v1alpha1.LogCluster{}).Status.UnderReplicatedPartitions).To(BeZero())
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionReplicated, v1alpha1.ReasonInSync)
		expectReason(f.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonReady,
			"All brokers are up.")

		// The node of broker 1 loses power. The broker's pod still looks ready, but the broker no longer
		// renews its Lease.
		f.renew(1, "a", 1, "disk", time.Second)
		expectReason(f.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonBrokersNotReady,
			"1 of 2", "brokers [1] are ready, but the brokers do not renew")
		Expect(get(Default, f, "main",
			&v1alpha1.LogCluster{}).Status.ReadyBrokers).To(Equal(int32(1)))
		f.renew(1, "a", 1, "disk", validThroughout)
		expectReason(f.clusterConditions(), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	It("runs pods that the restricted profile of the Pod Security Standards admits",
		func(t *testing.T) {
			change(&fixture{}, f.namespace, &corev1.Namespace{}, func(namespace *corev1.Namespace) {
				namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
			})
			f.cluster(1)
			var brokers *appsv1.StatefulSet
			Eventually(func(g Gomega) {
				brokers = get(g, f, "main-broker",
					&appsv1.StatefulSet{})
			}).Should(Succeed())
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "main-broker-0", Namespace: f.namespace,
					Labels: brokers.Spec.Template.Labels},
				Spec: *brokers.Spec.Template.Spec.DeepCopy(),
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes,
				corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: "data-main-broker-0",
					},
				}})
			privileged := pod.DeepCopy()
			privileged.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
			Eventually(func() error { // repeated until the API server enforces the profile
				return api.Create(context.Background(), privileged.DeepCopy(), client.DryRunAll)
			}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(api.Create(context.Background(), pod, client.DryRunAll)).To(Succeed())
		})

	It("grants its brokers the permissions they need, and no others", func(t *testing.T) {
		f.cluster(2)
		f.renew(0, "a", 1, "disk", validThroughout)
		f.topic("orders", nil)
		f.serve("orders/0")
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = "system:serviceaccount:" + f.namespace + ":main-broker"
		broker, err := client.New(as, client.Options{Scheme: api.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		ctx, in := context.Background(), client.InNamespace(f.namespace)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Name: name,
				Namespace: f.namespace}
		}

		for _, list := range []client.ObjectList{
			&v1alpha1.LogClusterList{}, &v1alpha1.TopicList{}, &v1alpha1.PartitionSetList{},
			&coordinationv1.LeaseList{},
		} {
			// The request succeeds as soon as the operator has created the RoleBinding.
			Eventually(func() error { return broker.List(ctx, list, in) }).Should(Succeed())
		}
		Expect(broker.Create(ctx,
			&coordinationv1.Lease{ObjectMeta: meta("main-broker-1")})).To(Succeed())
		Eventually(func(g Gomega) { // repeated because the operator writes the same Lease
			g.Expect(broker.Update(ctx, f.lease(g, 0))).To(Succeed())
		}).Should(Succeed())
		topic := &v1alpha1.Topic{ObjectMeta: meta("by-kafka"),
			Spec: v1alpha1.TopicSpec{Cluster: "main"}}
		Expect(broker.Create(ctx, topic)).To(Succeed())
		Expect(broker.Delete(ctx, topic)).To(Succeed())
		var set *v1alpha1.PartitionSet
		Eventually(func(g Gomega) { // repeated because the operator writes the same set
			set, _ = f.setOf(g, parse("orders/0"))
			g.Expect(broker.Status().Update(ctx, set)).To(Succeed())
			g.Expect(broker.Update(ctx, set)).To(Succeed(), "reassignments by Kafka clients")
		}).Should(Succeed())

		f.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "another-lease"}})
		other := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Name: "other-0"},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "other", Count: 16}}
		// The set is not empty, so the operator does not delete it.
		other.Spec.Assignments = map[string]string{"kept/0": "0 abcdefgh retained"}
		f.create(other)
		for what, err := range map[string]error{
			"another lease": broker.Update(ctx,
				get(Default, f, "another-lease", &coordinationv1.Lease{})),
			"another cluster's set":         broker.Status().Update(ctx, other),
			"another cluster's assignments": broker.Update(ctx, other),
			"the deletion of a set":         broker.Delete(ctx, set),
			"a topic's spec":                broker.Update(ctx, get(Default, f, "orders", &v1alpha1.Topic{})),
			"a topic's status": broker.Status().Update(ctx,
				get(Default, f, "orders", &v1alpha1.Topic{})),
			"a cluster": broker.Delete(ctx,
				get(Default, f, "main", &v1alpha1.LogCluster{})),
			"secrets":          broker.List(ctx, &corev1.SecretList{}, in),
			"pods":             broker.List(ctx, &corev1.PodList{}, in),
			"other namespaces": broker.List(ctx, &v1alpha1.TopicList{}),
		} {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		}
	})

	It("reports the progress of a clean that was requested by annotation", func(t *testing.T) {
		f.cluster(1)
		f.topic("tickets", func(spec *v1alpha1.TopicSpec) {
			spec.CleanupPolicy,
				spec.Partitions = v1alpha1.CleanupCompact, 2
		})
		var done atomic.Pointer[string]
		done.Store(new(""))
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter,
			_ *http.Request) {
			// The server plays a broker that reads the annotation.
			g := NewGomega(func(string, ...int) { panic(http.ErrAbortHandler) })
			requested := get(g, f, "tickets", &v1alpha1.Topic{}).CleanNow()
			rows := make([]report.Partition, 2)
			for i := range rows {
				compaction := &report.Compaction{Phase: "idle", Reason: v1alpha1.ReasonUpToDate}
				switch {
				case requested != "" && requested == *done.Load():
					compaction.CleanNow = &report.CleanNow{Value: requested,
						State:    report.CleanNowDone,
						Finished: new(float64(1_000_000 + i))}
				case requested != "":
					compaction.CleanNow = &report.CleanNow{Value: requested,
						State: report.CleanNowRunning}
				}
				rows[i] = report.Partition{Topic: "tickets", Partition: int32(i), Leader: true,
					Compaction: compaction}
			}
			_ = json.NewEncoder(out).Encode(report.Partitions{Partitions: rows})
		}))
		t.Cleanup(server.Close)
		hosts.set(render.HTTPAddress("main", f.namespace, 0), server.Listener.Addr().String())
		expect := func(want v1alpha1.CleanNowStatus) {
			Eventually(func(g Gomega) {
				compaction := get(g, f, "tickets", &v1alpha1.Topic{}).Status.Compaction
				g.Expect(compaction).NotTo(BeNil())
				g.Expect(compaction.CleanNow).NotTo(BeNil())
				got := *compaction.CleanNow
				got.CompletionTime = nil
				g.Expect(got).To(Equal(want))
			}).Should(Succeed())
		}
		request := func(value string) {
			change(f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
				topic.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: value}
			})
		}
		request("monday")
		expect(v1alpha1.CleanNowStatus{Value: "monday", State: v1alpha1.CleanNowRunning,
			Replicas: "0/2"})
		done.Store(new("monday"))
		expect(v1alpha1.CleanNowStatus{Value: "monday", State: v1alpha1.CleanNowDone,
			Replicas: "2/2"})
		Expect(get(
			Default,
			f,
			"tickets",
			&v1alpha1.Topic{},
		).Status.Compaction.CleanNow.CompletionTime.Unix()).To(Equal(int64(1_000_001)))
		request("tuesday")
		expect(v1alpha1.CleanNowStatus{Value: "tuesday", State: v1alpha1.CleanNowRunning,
			Replicas: "0/2"})
		change(f, "tickets", &v1alpha1.Topic{},
			func(topic *v1alpha1.Topic) { topic.Annotations = nil })
		Eventually(func(g Gomega) {
			g.Expect(get(g, f, "tickets", &v1alpha1.Topic{}).Status.Compaction.CleanNow).To(BeNil())
		}).Should(Succeed())
	})

	ItAlone("is polled for its compaction", func(t *testing.T) {
		f.cluster(2)
		f.topic(
			"tickets",
			func(spec *v1alpha1.TopicSpec) { spec.CleanupPolicy = v1alpha1.CleanupCompact },
		)
		f.topic("events", nil)
		conditions := f.topicConditions("tickets")
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonUnknown,
			"0 of 2 brokers responded")

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
		t.Cleanup(server.Close)
		hosts.set(render.HTTPAddress("main", f.namespace, 1), server.Listener.Addr().String())
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonBelowDirtyRatio,
			"minDirtyPercent")
		Eventually(func(g Gomega) {
			summary := get(g, f, "tickets", &v1alpha1.Topic{}).Status.Compaction
			g.Expect(summary).NotTo(BeNil())
			g.Expect(summary.DirtyPercent).NotTo(BeNil())
			g.Expect([]string{fmt.Sprint(*summary.DirtyPercent), summary.Phase,
				summary.Reclaimable.String()}).To(Equal([]string{"37", "Idle", "1Mi"}))
		}).Should(Succeed())
		Expect(get(Default, f, "events", &v1alpha1.Topic{}).Status.Compaction).To(BeNil())
		Expect(api.Delete(context.Background(),
			get(Default, f, "events", &v1alpha1.Topic{}))).To(Succeed())
		Eventually(func(g Gomega) {
			cells := f.firstRow(g, "topics")
			g.Expect([]any{cells["Name"], cells["Dirty"], cells["Reclaimable"], cells["Cleaner"],
				cells["Why"]}).
				To(Equal([]any{"tickets", float64(37), "1Mi", "Idle", "BelowDirtyRatio"}))
		}).Should(Succeed())

		// If a broker's response takes too long, the status changes twice, so several attempts may be
		// needed.
		Eventually(func(g Gomega) {
			version := get(g, f, "tickets", &v1alpha1.Topic{}).ResourceVersion
			before := reconciled(g, "topic")
			Eventually(func(g Gomega) {
				g.Expect(reconciled(g, "topic")).To(BeNumerically(">", before+5))
			}).Should(Succeed())
			g.Expect(get(g, f, "tickets", &v1alpha1.Topic{}).ResourceVersion).To(Equal(version),
				"nothing changed")
		}).Should(Succeed())

		server.Close()
		expectReason(conditions, v1alpha1.ConditionCompacting, v1alpha1.ReasonUnknown,
			"0 of 2 brokers responded")
	})
})
