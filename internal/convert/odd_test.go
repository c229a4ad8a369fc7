package convert

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
)

// yamlObjects returns the objects in a text, in which GROUP stands for the API group.
func yamlObjects(t *testing.T, text string) []map[string]any {
	t.Helper()
	all, faults := manifest.Objects("test", []byte(strings.ReplaceAll(text, "GROUP", group)))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return all
}

const kafkaAndPool = `
apiVersion: GROUP/v1
kind: Kafka
metadata: {name: main}
spec:
  kafka:
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
    template: {pod: {priorityClassName: kafka, metadata: {labels: {of: kafka}}}}
---
apiVersion: GROUP/v1
kind: KafkaNodePool
metadata: {name: a, labels: {strimzi.io/cluster: main}}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: persistent-claim, size: 10Gi, deleteClaim: true}
  template: {pod: {metadata: {labels: {of: pool}}}}
`

// TestObjectsThatOccurTwiceAreErrors checks that no pool counts twice.
func TestObjectsThatOccurTwiceAreErrors(t *testing.T) {
	all := yamlObjects(t, kafkaAndPool)
	_, err := Strimzi(append(all, all[1]))
	if err == nil || !strings.Contains(err.Error(), "KafkaNodePool/a is there twice") {
		t.Errorf("got error %v", err)
	}
	other := yamlObjects(t, kafkaAndPool)
	for _, content := range other {
		place(content, "metadata")["namespace"] = "other"
	}
	documents, err := Strimzi(append(all, other...))
	if err != nil || len(documents) != 4 {
		t.Errorf("equal names in two namespaces: got %d documents, error %v", len(documents), err)
	}
}

// TestOtherVersionsAreErrors checks that no object is read with the fields of another version.
func TestOtherVersionsAreErrors(t *testing.T) {
	_, err := Strimzi(yamlObjects(t, "{apiVersion: GROUP/v1beta1, kind: KafkaTopic,"+
		" metadata: {name: a}}"))
	if err == nil || !strings.Contains(err.Error(), group+"/v1beta1") {
		t.Errorf("got error %v", err)
	}
}

// TestTemplateOfPoolReplacesTemplateOfKafka checks that the templates are not merged.
func TestTemplateOfPoolReplacesTemplateOfKafka(t *testing.T) {
	all := yamlObjects(t, kafkaAndPool)
	documents, err := Strimzi(all)
	if err != nil {
		t.Fatal(err)
	}
	pod := documents[0].Object.(*v1alpha1.LogCluster).Spec.Pod
	if pod == nil || pod.PriorityClassName != "" || pod.Labels["of"] != "pool" {
		t.Errorf("got pod %+v", pod)
	}
}

// TestVolumesAreDeletedOnlyIfAllWere checks the reclaim policy of pools that differ.
func TestVolumesAreDeletedOnlyIfAllWere(t *testing.T) {
	_, pool, _ := strings.Cut(kafkaAndPool, "---")
	second := "---" + strings.ReplaceAll(pool, "name: a", "name: b")
	for deleted, want := range map[string]v1alpha1.ReclaimPolicy{
		"deleteClaim: true": v1alpha1.ReclaimDelete, "deleteClaim: false": ""} {
		documents, err := Strimzi(yamlObjects(t, kafkaAndPool+
			strings.ReplaceAll(second, "deleteClaim: true", deleted)))
		if err != nil {
			t.Fatal(err)
		}
		got := documents[0].Object.(*v1alpha1.LogCluster).Spec.Storage.ReclaimPolicy
		if got != want {
			t.Errorf("%s: got %q, want %q", deleted, got, want)
		}
	}
}

// TestUnmanagedTopicsOutliveTheirResources checks that the deletion of a Topic deletes no records
// that the deletion of the KafkaTopic kept.
func TestUnmanagedTopicsOutliveTheirResources(t *testing.T) {
	for managed, want := range map[string]v1alpha1.ReclaimPolicy{
		"true": v1alpha1.ReclaimDelete, "false": v1alpha1.ReclaimRetain} {
		documents, err := Strimzi(yamlObjects(t, "{apiVersion: GROUP/v1, kind: KafkaTopic, metadata:"+
			" {name: a, labels: {strimzi.io/cluster: main}, annotations: {strimzi.io/managed: \""+
			managed+"\"}}, spec: {partitions: 1}}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := documents[0].Object.(*v1alpha1.Topic).Spec.ReclaimPolicy; got != want {
			t.Errorf("managed %s: got %q, want %q", managed, got, want)
		}
	}
}

// TestRemarksStayComments checks that no character of a source ends a comment.
func TestRemarksStayComments(t *testing.T) {
	content := withListener(nil)
	place(content, "spec.kafka")["config"] = map[string]any{
		"a\rspec: b": "1", "a\u0085spec: b": "1", "a\u2028spec: b": "1", "a\nspec: b": "1"}
	var out bytes.Buffer
	documents, err := Strimzi([]map[string]any{content})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(&out, documents); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\r\u0085\u2028") {
		t.Errorf("got %q", out.String())
	}
	if _, faults := manifest.Objects("result", out.Bytes()); len(faults) > 0 {
		t.Errorf("the result has faults %v in\n%s", faults, out.String())
	}
}

// TestRetentionThatIsNoNumberIsLost checks configs in larger units.
func TestRetentionThatIsNoNumberIsLost(t *testing.T) {
	for _, value := range []string{"a week", "9223372036854775807"} {
		content := withListener(nil)
		place(content, "spec.kafka")["config"] = map[string]any{"log.retention.hours": value}
		got, lost := convertedCluster(t, content)
		if len(lost) != 1 || got.Spec.TopicDefaults != nil {
			t.Errorf("%s: got %+v, losses %v", value, got.Spec.TopicDefaults, lost)
		}
	}
}

// TestPodSetsAreNotNeeded checks the kinds of Strimzi's other group.
func TestPodSetsAreNotNeeded(t *testing.T) {
	documents, err := Strimzi(yamlObjects(t,
		"{apiVersion: core.strimzi.io/v1, kind: StrimziPodSet, metadata: {name: main}}"))
	if err != nil || len(Lost(documents)) != 0 ||
		!strings.Contains(documents[0].Remarks[0].Text, "does not need") {
		t.Errorf("got %+v, error %v", documents, err)
	}
}

// TestRuleWithTwoFieldsOfOperationsIsLeftOut checks a rule that Strimzi refuses.
func TestRuleWithTwoFieldsOfOperationsIsLeftOut(t *testing.T) {
	documents, err := Strimzi(yamlObjects(t, "{apiVersion: GROUP/v1beta2, kind: KafkaUser, metadata:"+
		" {name: a, labels: {strimzi.io/cluster: main}}, spec: {authorization: {type: simple, acls:"+
		" [{resource: {type: topic, name: a}, operation: Write, operations: [Read]}]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := documents[0].Object.(*v1alpha1.LogUser).Spec.ACLs; len(got) != 0 {
		t.Errorf("got rules %+v", got)
	}
}

// TestVolumeWithoutSizeIsALoss checks that the default size is not taken silently.
func TestVolumeWithoutSizeIsALoss(t *testing.T) {
	for _, size := range []any{nil, "much"} {
		content := withListener(nil)
		place(content, "spec.kafka.storage")["size"] = size
		if _, lost := convertedCluster(t, content); len(lost) != 1 ||
			lost[0].Path != "spec.kafka.storage.size" {
			t.Errorf("%v: got losses %v", size, lost)
		}
	}
}

// TestOperationsThatOccurTwice checks that a rule has each operation once.
func TestOperationsThatOccurTwice(t *testing.T) {
	documents, err := Strimzi(yamlObjects(t, "{apiVersion: GROUP/v1, kind: KafkaUser, metadata:"+
		" {name: a, labels: {strimzi.io/cluster: main}}, spec: {authorization: {type: simple, acls:"+
		" [{resource: {type: topic, name: a}, operations: [Read, Write, Read]}]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	acls := documents[0].Object.(*v1alpha1.LogUser).Spec.ACLs
	if len(acls) != 1 || len(acls[0].Operations) != 2 {
		t.Errorf("got rules %+v", acls)
	}
}

// TestResourcesThatAreNull checks that null, which Kubernetes ignores, does not become 0.
func TestResourcesThatAreNull(t *testing.T) {
	content := withListener(nil)
	place(content, "spec.kafka")["resources"] = map[string]any{
		"requests": map[string]any{"cpu": int64(1), "memory": nil}}
	got, _ := convertedCluster(t, content)
	if requests := got.Spec.Resources.Requests; len(requests) != 1 ||
		requests["cpu"] != resource.MustParse("1") {
		t.Errorf("got requests %v", requests)
	}
}
