package controllers

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	. "heartwood.dev/heartwood/test/kit/specs"
)

var _ = Describe("The manifests of config", func() {
	It("are all listed by the kustomization", func(t *testing.T) {
		content, err := os.ReadFile("../config/kustomization.yaml")
		Expect(err).NotTo(HaveOccurred())
		var kustomization struct{ Resources []string }
		Expect(yaml.Unmarshal(content, &kustomization)).To(Succeed())
		var files []string
		for _, folder := range []string{"admission", "crd", "manager", "rbac"} {
			found, err := filepath.Glob("../config/" + folder + "/*.yaml")
			Expect(err).NotTo(HaveOccurred())
			for _, file := range found {
				files = append(files, folder+"/"+filepath.Base(file))
			}
		}
		slices.Sort(files)
		Expect(kustomization.Resources).To(Equal(files))
	})

	It("install an operator that the restricted profile admits", func(t *testing.T) {
		content, err := os.ReadFile("../config/manager/operator.yaml")
		Expect(err).NotTo(HaveOccurred())
		strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
		var deployment *appsv1.Deployment
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal(document, object)).To(Succeed())
			switch object.GetKind() {
			// not created, because the test suite has already created one with the same name
			case "ClusterRoleBinding":
				Expect(object.GetName()).To(Equal("heartwood-operator"))
				continue
			case "Deployment":
				deployment = &appsv1.Deployment{}
				Expect(yaml.UnmarshalStrict(document, deployment)).To(Succeed())
			}
			Expect(strict.Create(context.Background(), object)).To(Succeed(), object.GetKind())
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: deployment.Namespace},
			Spec:       deployment.Spec.Template.Spec,
		}
		Expect(api.Create(context.Background(), pod, client.DryRunAll)).To(Succeed())
	})
})
