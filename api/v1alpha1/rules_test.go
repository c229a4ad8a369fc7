package v1alpha1_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/test/kit/envtest"
)

// api is a client of an API server that enforces the rules. Its requests use namespace.
var (
	api       client.Client
	namespace string
)

// triggered contains the messages of the rules that the specs have triggered. The last spec checks
// that triggered contains the message of every rule in the CRDs.
var triggered = map[string]bool{}

func TestRules(t *testing.T) {
	config := envtest.Start(t)
	var err error
	if api, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	if namespace, err = envtest.Namespace(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "rules of the CRDs")
}

// bases are minimal valid manifests.
var bases = map[string]string{
	"LogCluster":   `{metadata: {name: main}}`,
	"Topic":        `{metadata: {name: orders}, spec: {cluster: main}}`,
	"LogUser":      `{metadata: {name: alice}, spec: {cluster: main}}`,
	"PartitionSet": `{metadata: {name: main-0}, spec: {cluster: main, index: 0, count: 16}}`,
}

// manifest returns the minimal manifest of a kind, with changes (YAML) merged into it field by
// field.
func manifest(kind string, changes ...string) *unstructured.Unstructured {
	GinkgoHelper()
	content := map[string]any{}
	for _, text := range append([]string{bases[kind]}, changes...) {
		change := map[string]any{}
		Expect(yaml.Unmarshal([]byte(text), &change)).To(Succeed(), text)
		merge(content, change)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion("heartwood.dev/v1alpha1")
	object.SetKind(kind)
	object.SetNamespace(namespace)
	return object
}

// merge merges the fields of patch into target. A null value in patch removes the field from
// target.
func merge(target, patch map[string]any) {
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		before, wasMap := target[name].(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isMap && wasMap:
			before = maps.Clone(before)
			merge(before, inner)
			target[name] = before
		default:
			target[name] = value
		}
	}
}

func create(object *unstructured.Unstructured) error {
	return api.Create(context.Background(), object, client.DryRunAll)
}

// expectRejected expects an error that contains the field's path and the message of the rule.
func expectRejected(err error, field, message string) {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	Expect(err.Error()).To(ContainSubstring(field+": "), "the field path")
	Expect(err.Error()).To(ContainSubstring(message), "what to do")
	triggered[message] = true
}

var _ = Describe("Every rule", Ordered, ContinueOnFailure, func() {
	DescribeTable("rejects a creation",
		func(kind, change, field,
			message string) {
			expectRejected(create(manifest(kind, change)), field, message)
		},
		creations(), securityCreations(), rebalanceCreations(),
	)
	DescribeTable("rejects an update",
		func(kind, before, after, field, message string) {
			object := manifest(kind, before)
			Expect(api.Create(context.Background(), object)).To(Succeed())
			DeferCleanup(func() { Expect(api.Delete(context.Background(), object)).To(Succeed()) })
			changed := manifest(kind, before, after)
			changed.SetResourceVersion(object.GetResourceVersion())
			expectRejected(api.Update(context.Background(), changed, client.DryRunAll), field, message)
		},
		changes(), userChanges(),
	)
	DescribeTable("accepts valid values",
		func(kind, change string) { Expect(create(manifest(kind, change))).To(Succeed()) },
		accepted(), securityAccepted(),
	)
	It("is covered by a spec", func() {
		for _, message := range ruleMessages() {
			Expect(triggered).To(HaveKey(message), "no spec triggers this rule")
		}
	})
})

// ruleMessages returns the messages of all CEL rules in the CRDs.
func ruleMessages() []string {
	GinkgoHelper()
	files, err := filepath.Glob("../../config/crd/*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(4))
	var messages []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.Unmarshal(content, crd)).To(Succeed())
		collect(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &messages)
	}
	Expect(len(messages)).To(BeNumerically(">", 30), "the rules were not found")
	return messages
}

func collect(schema *apiextensionsv1.JSONSchemaProps, messages *[]string) {
	for _, rule := range schema.XValidations {
		Expect(strings.TrimSpace(rule.Message)).NotTo(BeEmpty(), "rule %q has no message", rule.Rule)
		*messages = append(*messages, rule.Message)
	}
	for _, property := range schema.Properties {
		collect(&property, messages)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		collect(schema.Items.Schema, messages)
	}
}
