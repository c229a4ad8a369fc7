package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/internal/operator/render"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// foreignPod is the pod template of a StatefulSet that does not belong to the operator.
func foreignPod() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
}

// expectRefused waits until a condition of LogCluster main names a foreign object, and checks that
// the operator has not changed the object.
func (f *fixture) expectRefused(object client.Object, kind, condition, reason string) {
	before := get(Default, f, object.GetName(), object).GetResourceVersion()
	expectReason(f.clusterConditions(), condition, reason, kind+" "+object.GetName(),
		"was not made for this LogCluster", "delete the "+kind)
	Expect(get(Default, f, object.GetName(), object).GetResourceVersion()).To(Equal(before))
	Expect(object.GetOwnerReferences()).To(BeEmpty())
}

// emptyReader is a reader that finds no object.
type emptyReader struct{ client.Reader }

func (emptyReader) Get(context.Context, client.ObjectKey, client.Object,
	...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

var _ = Describe("An object with the name of one of a LogCluster's", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}}
	tlsListener := v1alpha1.Listener{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{},
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}

	It("is named also while the LogCluster is paused", func(t *testing.T) {
		f.create(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector,
				MaxUnavailable: new(intstr.FromInt32(2))}})
		f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main",
			Annotations: map[string]string{v1alpha1.AnnotationPaused: "true"}},
			Spec: v1alpha1.LogClusterSpec{Brokers: 1}})
		f.expectRefused(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
			Name: "main-broker"}}, "PodDisruptionBudget", v1alpha1.ConditionApplied,
			v1alpha1.ReasonObjectNameTaken)
	})

	DescribeTable("is not changed", func(kind string, object client.Object) {
		f.create(object)
		f.secured("", tlsListener,
			v1alpha1.Listener{Name: "out", Port: 9094, Type: v1alpha1.ListenerNodePort})
		f.expectRefused(object, kind, v1alpha1.ConditionApplied, v1alpha1.ReasonObjectNameTaken)
		Expect(api.Delete(context.Background(), object)).To(Succeed())
		f.advance(0) // triggers a reconciliation at once; otherwise the operator retries every 30 s
		expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
		Expect(metav1.IsControlledBy(get(Default, f, object.GetName(), object),
			get(Default, f, "main", &v1alpha1.LogCluster{}))).To(BeTrue())
	},
		Entry("a Service", "Service", &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "main-bootstrap"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"},
				Ports: []corev1.ServicePort{{Port: 80}}}}),
		Entry("a Service of a broker and listener", "Service", &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "main-out-1"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
		Entry("a ServiceAccount", "ServiceAccount", &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"}}),
		Entry("a Role", "Role", &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "main-broker"}}),
		Entry("a RoleBinding", "RoleBinding", &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "theirs"}}),
		Entry("a NetworkPolicy", "NetworkPolicy", &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: *selector}}),
		Entry("a PodDisruptionBudget", "PodDisruptionBudget", &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector}}),
		Entry("a StatefulSet", "StatefulSet", &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "main-broker"},
			Spec:       appsv1.StatefulSetSpec{Selector: selector, Template: foreignPod()}}),
	)

	DescribeTable("is not changed if it is a Secret", func(name, condition string) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string][]byte{"theirs": []byte("a")}}
		f.create(secret)
		f.secured("", tlsListener)
		f.user("alice", v1alpha1.UserScram)
		f.expectRefused(secret, "Secret", condition, v1alpha1.ReasonSecretNameTaken)
		Expect(api.Delete(context.Background(), secret)).To(Succeed())
		f.advance(0)
		f.annotateUser("alice", "test", "1")
		Eventually(func(g Gomega) { f.secret(g, name) }).Should(Succeed())
	},
		Entry("CA of listeners", "main-ca", v1alpha1.ConditionCertificatesReady),
		Entry("CA of brokers", "main-peer-ca", v1alpha1.ConditionCertificatesReady),
		Entry("published CAs", "main-ca-cert", v1alpha1.ConditionCertificatesReady),
		Entry("certificates", "main-brokers-tls", v1alpha1.ConditionCertificatesReady),
		Entry("verifiers", "main-scram-0", v1alpha1.ConditionUsersReady),
		Entry("verifiers of admin clients", "main-scram-admin", v1alpha1.ConditionUsersReady),
	)

	It("is taken over if the operator has made it for a LogCluster that was orphaned",
		func(t *testing.T) {
			cluster := f.cluster(1)
			expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
			Expect(api.Delete(context.Background(), cluster)).To(Succeed())
			// A reconciliation that is running can still apply objects whose owner is the deleted
			// LogCluster.
			Eventually(func(g Gomega) {
				g.Expect(series(g, "heartwood_operator_reconcile_last_success_timestamp_seconds",
					"namespace", f.namespace)).To(BeEmpty())
			}).Should(Succeed())
			// The test acts as the garbage collector, which does not run here: it removes the owner from
			// orphaned objects.
			rendered := render.Cluster(cluster, render.Settings{})
			for _, object := range rendered {
				change(f, object.GetName(), object,
					func(object client.Object) { object.SetOwnerReferences(nil) })
			}
			again := f.cluster(1)
			Eventually(func(g Gomega) {
				for _, object := range rendered {
					g.Expect(metav1.IsControlledBy(get(g, f, object.GetName(), object),
						again)).To(BeTrue(), object.GetName())
				}
			}).Should(Succeed())
		})

	It("is not taken over if it is created at the same moment", func(t *testing.T) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "main-bootstrap"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"},
				Ports: []corev1.ServicePort{{Name: "kafka", Port: 80}}}}
		f.create(service)
		cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main",
			Namespace: f.namespace, UID: "1"}, Spec: v1alpha1.LogClusterSpec{Brokers: 1}}
		rendered := render.Cluster(cluster, render.Settings{})
		index := slices.IndexFunc(rendered,
			func(o client.Object) bool { return o.GetName() == service.Name })
		applier := owned.Applier{Client: api, Live: emptyReader{api}}
		Expect(applier.Apply(context.Background(), cluster, rendered[index])).To(
			MatchError(apierrors.IsConflict, "conflict"))
	})

	It("that belongs to an earlier LogCluster is not changed until Kubernetes deletes it",
		func(t *testing.T) {
			cluster := f.cluster(1)
			expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplied)
			Expect(api.Delete(context.Background(), cluster)).To(Succeed())
			before := get(Default, f, "main-bootstrap", &corev1.Service{}).ResourceVersion
			f.cluster(1)
			expectReason(f.clusterConditions(), v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed,
				"earlier resource of the same name")
			Consistently(func(g Gomega) {
				g.Expect(get(g, f, "main-bootstrap", &corev1.Service{}).ResourceVersion).To(Equal(before))
			}).WithTimeout(time.Second).Should(Succeed())
		})
})
