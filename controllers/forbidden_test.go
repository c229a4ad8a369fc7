package controllers

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// forbidPodDeletions makes the API server deny the deletion of pods in a namespace, as an
// administrator's policy can do. It waits until the deletion of a broker's pod is denied. The
// returned function allows deletions again.
func forbidPodDeletions(t *testing.T, namespace string, broker int32) (allow func()) {
	name := metav1.ObjectMeta{Name: "no-deletions-" + namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Delete},
						Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods"}},
					}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false",
				Message: "this site deletes no pods"}},
		}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	for _, object := range []client.Object{policy, binding} {
		Expect(api.Create(context.Background(), object)).To(Succeed())
		Cleanup(t, func() {
			Expect(client.IgnoreNotFound(api.Delete(context.Background(), object))).To(Succeed())
		})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: v1alpha1.BrokerLeaseName("main", broker)}}
	Eventually(func(g Gomega) {
		err := api.Delete(context.Background(), pod, client.DryRunAll)
		g.Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}).Should(Succeed())
	return func() { Expect(api.Delete(context.Background(), binding)).To(Succeed()) }
}
