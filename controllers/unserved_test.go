package controllers

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// allowUnserved removes those CRD rules that reject features which brokers do not serve yet. This
// lets tests cover the controllers for these features.
func allowUnserved(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crds, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"logclusters.heartwood.dev", "logusers.heartwood.dev"} {
		// The API server also writes this object's status, so conflicts are possible.
		backoff := wait.Backoff{Steps: 600, Duration: 100 * time.Millisecond}
		if err := retry.RetryOnConflict(backoff, func() error {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := crds.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
				return err
			}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			removeUnserved(schema)
			if listeners, ok := schema.Properties["spec"].Properties["listeners"]; ok {
				listeners.MaxItems = new(int64(8))
				schema.Properties["spec"].Properties["listeners"] = listeners
			}
			return crds.Update(t.Context(), crd)
		}); err != nil {
			t.Fatal(err)
		}
	}
	probe := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{
		Listeners: v1alpha1.Listeners{{Name: "a", Port: 1, TLS: &v1alpha1.ListenerTLS{}},
			{Name: "b", Port: 2}}}}
	probe.Name, probe.Namespace = "probe", "default"
	await.For(t, func() string {
		if err := api.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err != nil {
			return "the API server uses the changed CRDs: " + err.Error()
		}
		return ""
	})
}

// removeUnserved removes the rules for unserved features. Their messages begin with "this version".
func removeUnserved(schema *apiextensionsv1.JSONSchemaProps) {
	var kept apiextensionsv1.ValidationRules
	for _, rule := range schema.XValidations {
		if !strings.HasPrefix(rule.Message, "this version") {
			kept = append(kept, rule)
		}
	}
	schema.XValidations = kept
	for name, property := range schema.Properties {
		removeUnserved(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		removeUnserved(schema.Items.Schema)
	}
}
