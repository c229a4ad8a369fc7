package crd_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/envtest"
)

// TestStorageVersionMigration performs the steps in docs/api-stability.md#storage-versions on an
// API server, with an invented version v1beta1 of the Topics.
func TestStorageVersionMigration(t *testing.T) {
	m := newMigration(t)
	m.createTopic(t)
	m.change(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		later := crd.Spec.Versions[0].DeepCopy()
		later.Name, later.Storage = "v1beta1", true
		crd.Spec.Versions[0].Storage = false
		crd.Spec.Versions = append(crd.Spec.Versions, *later)
	})
	m.awaitStored(t, "v1alpha1,v1beta1")
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		m.expectTopic(t, version)
	}

	removal := m.definition(t)
	removal.Spec.Versions = removal.Spec.Versions[1:]
	if err := m.api.Update(t.Context(), removal); err == nil ||
		!strings.Contains(err.Error(), "storedVersions") {
		t.Fatalf("removal of a version before the migration: got error %v", err)
	}

	topic := m.expectTopic(t, "v1beta1")
	before := topic.GetResourceVersion()
	if err := m.api.Update(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if topic.GetResourceVersion() == before {
		t.Error("the API server did not write the unchanged Topic in the new version")
	}
	stored := m.definition(t)
	stored.Status.StoredVersions = []string{"v1beta1"}
	if err := m.api.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	m.change(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = crd.Spec.Versions[1:]
	})
	m.expectTopic(t, "v1beta1")
}

// migration is an API server with the CRDs.
type migration struct {
	api       client.Client
	namespace string
}

func newMigration(t *testing.T) *migration {
	t.Helper()
	config := envtest.Start(t)
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := envtest.Namespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &migration{api: api, namespace: namespace}
}

func (m *migration) definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := m.api.Get(t.Context(), client.ObjectKey{Name: "topics.heartwood.dev"},
		definition); err != nil {
		t.Fatal(err)
	}
	return definition
}

// change changes the CRD of the Topics.
func (m *migration) change(t *testing.T, do func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	definition := m.definition(t)
	do(definition)
	if err := m.api.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
}

// awaitStored waits until the CRD has the given stored versions.
func (m *migration) awaitStored(t *testing.T, want string) {
	t.Helper()
	await.Until(t, "stored versions "+want, func() bool {
		return strings.Join(m.definition(t).Status.StoredVersions, ",") == want
	})
}

func (m *migration) createTopic(t *testing.T) {
	t.Helper()
	topic := m.topic("v1alpha1")
	topic.Object["spec"] = map[string]any{"cluster": "main", "partitions": int64(7)}
	if err := m.api.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

func (m *migration) topic(version string) *unstructured.Unstructured {
	topic := &unstructured.Unstructured{}
	topic.SetGroupVersionKind(schema.GroupVersionKind{Group: "heartwood.dev", Version: version,
		Kind: "Topic"})
	topic.SetNamespace(m.namespace)
	topic.SetName("tickets")
	return topic
}

// expectTopic waits until the API server serves the version, and checks that the Topic is complete.
func (m *migration) expectTopic(t *testing.T, version string) *unstructured.Unstructured {
	t.Helper()
	topic := m.topic(version)
	await.Until(t, "Topic in version "+version, func() bool {
		return m.api.Get(t.Context(), client.ObjectKeyFromObject(topic), topic) == nil
	})
	if got, _, err := unstructured.NestedInt64(topic.Object, "spec", "partitions"); err != nil ||
		got != 7 {
		t.Errorf("%s: got %d partitions, error %v, want 7", version, got, err)
	}
	return topic
}
