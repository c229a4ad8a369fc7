package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/envtest"
)

// TestMessagesMatchTheAPIServer checks that a real API server accepts and rejects the same objects
// as Load, with the same messages.
func TestMessagesMatchTheAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no kube-apiserver; make test sets it")
	}
	client, err := dynamic.NewForConfig(envtest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	create := func(o object, dryRun ...string) error {
		kind, _ := o.content["kind"].(string)
		resource := v1alpha1.GroupVersion.WithResource(strings.ToLower(kind) + "s")
		_, err := client.Resource(resource).Namespace("default").Create(t.Context(),
			&unstructured.Unstructured{Object: o.content},
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
		return err
	}
	for _, o := range objectsOf(t, "testdata/refused/*.yaml") {
		err := create(o, metav1.DryRunAll)
		if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: the API server returned %v, want Invalid or BadRequest", o.file, err)
			continue
		}
		for _, fault := range wantFaults(t, o.file) {
			if !contains(err, fault) {
				t.Errorf("%s: Load returned\n%s\nthe API server returned\n%v", o.file, fault, err)
			}
		}
	}
	for _, o := range objectsOf(t, samples+"/*.yaml") {
		if err := create(o); err != nil {
			t.Errorf("%s: the API server rejected a sample: %v", o.file, err)
		}
	}
	t.Run("updates", func(t *testing.T) { testUpdates(t, client) })
}

// valueShown matches the invalid value in a message. API servers before version 1.36 print the
// value's type instead of the value.
var valueShown = regexp.MustCompile(`Invalid value: ("[^"]*"|[0-9]+): `)

// contains reports whether an API server error contains the field and the message of a fault. It
// ignores the invalid value, and the path of an unknown field, which only Load adds.
func contains(theirs error, fault string) bool {
	path, words, _ := strings.Cut(fault, ": ")
	if strings.HasPrefix(words, "unknown field") {
		path = ""
	}
	if value := valueShown.FindString(words); value != "" {
		words = strings.TrimPrefix(words, value)
	}
	words = strings.TrimPrefix(words, "Invalid value: ")
	return strings.Contains(theirs.Error(), path) && strings.Contains(theirs.Error(), words)
}

// testUpdates changes the sample topic tickets in ways that CheckUpdate and the API server reject
// with the same messages.
func testUpdates(t *testing.T, client dynamic.Interface) {
	topics := client.Resource(v1alpha1.GroupVersion.WithResource("topics")).Namespace("default")
	set, err := Load([]string{samples})
	if err != nil {
		t.Fatal(err)
	}
	index := slices.IndexFunc(set.Topics,
		func(topic *v1alpha1.Topic) bool { return topic.Name == "tickets" })
	for name, change := range map[string]func(*v1alpha1.TopicSpec){
		"shrink":      func(spec *v1alpha1.TopicSpec) { spec.Partitions = 2 },
		"move":        func(spec *v1alpha1.TopicSpec) { spec.Cluster = "other" },
		"rename":      func(spec *v1alpha1.TopicSpec) { spec.TopicName = "Tickets" },
		"wrong level": func(spec *v1alpha1.TopicSpec) { level := int32(99); spec.Compression.Level = &level },
	} {
		updated := set.Topics[index].DeepCopy()
		change(&updated.Spec)
		ours := CheckUpdate(set.Topics[index], updated)
		after, err := content("Topic", updated.Name, updated)
		if err != nil {
			t.Fatal(err)
		}
		live, err := topics.Get(t.Context(), "tickets", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		live.Object["spec"] = after["spec"]
		_, theirs := topics.Update(t.Context(), live,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if ours == nil || theirs == nil ||
			!contains(theirs, strings.TrimSuffix(ours.Error(), " (Topic/tickets)")) {
			t.Errorf("%s: CheckUpdate returned\n%v\nthe API server returned\n%v", name, ours,
				theirs)
		}
	}
}

func objectsOf(t *testing.T, pattern string) []object {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, files, err)
	}
	var all []object
	for _, file := range files {
		objects, faults := read(file)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		for _, o := range objects {
			if name, _, _ := unstructured.NestedString(o.content, "metadata", "name"); name != "" {
				all = append(all, o) // the client itself rejects objects without a name
			}
		}
	}
	return all
}
