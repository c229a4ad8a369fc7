package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// testInternalTopics checks that neither Kafka nor kubectl can make an internal topic lose records
// by age.
func testInternalTopics(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	for name, policy := range map[string]string{"silent": "",
		"compact": `,"cleanupPolicy":"Compact"`} {
		if err := f.applyOffsetsTopic(name, policy); err != nil {
			f.t.Fatal(err)
		}
		f.assign(partitionset.Key{Topic: name}, 0)
		b.until("topic is compacted", func(i *metadata.Image) bool {
			topic := i.Topic(metadata.OffsetsTopic)
			return topic != nil && topic.Settings.Compact && !topic.Settings.Delete
		})
		f.loseOffsets(b, name, policy != "")
		topic := &v1alpha1.Topic{}
		f.get(name, topic)
		if err := f.client.Delete(f.t.Context(), topic); err != nil {
			f.t.Fatal(err)
		}
		b.until("topic deleted",
			func(i *metadata.Image) bool { return i.Topic(metadata.OffsetsTopic) == nil })
	}
}

// loseOffsets tries every way to make an internal topic's Topic delete records. All attempts must
// fail.
func (f *fixture) loseOffsets(b *broker, name string, hasPolicy bool) {
	f.t.Helper()
	for _, p := range []metadata.PropertyChange{
		{Name: "cleanup.policy", Op: metadata.PropertyDelete},
		{Name: "cleanup.policy", Op: metadata.PropertySet, Value: "delete"},
		{Name: "cleanup.policy", Op: metadata.PropertyAppend, Value: "delete"},
		{Name: "cleanup.policy", Op: metadata.PropertySubtract, Value: "compact"},
		{Name: "retention.ms", Op: metadata.PropertySet, Value: "1000"},
		{Name: "retention.bytes", Op: metadata.PropertySet, Value: "1"},
	} {
		for _, replace := range []bool{false, true} {
			err := b.AlterTopic(f.t.Context(), metadata.TopicChange{Name: metadata.OffsetsTopic,
				Properties: []metadata.PropertyChange{p}, Replace: replace})
			if !errors.Is(err, metadata.ErrInvalidSettings) {
				f.t.Errorf("%s: %+v: got error %v, want ErrInvalidSettings", name, p, err)
			}
		}
	}
	patches := []string{`{"spec":{"cleanupPolicy":"Delete"}}`,
		`{"spec":{"cleanupPolicy":"CompactDelete"}}`, `{"spec":{"retention":{"time":"1s"}}}`,
		`{"spec":{"retention":{"size":1}}}`}
	if hasPolicy {
		patches = append(patches, `{"spec":{"cleanupPolicy":null}}`)
	}
	topic := &v1alpha1.Topic{}
	f.get(name, topic)
	for _, text := range patches {
		err := f.client.Patch(f.t.Context(), topic.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(text)))
		if !apierrors.IsInvalid(err) {
			f.t.Errorf("%s: patch %s: got error %v", name, text, err)
		}
	}
	added := []string{`,"cleanupPolicy":"Delete"`, `,"retention":{"time":"1s"}`}
	if hasPolicy {
		added = append(added, "") // the API server would remove an empty field
	}
	for _, fields := range added {
		if err := f.applyOffsetsTopic(name, fields); !apierrors.IsInvalid(err) {
			f.t.Errorf("%s: server-side apply with fields %q: got error %v", name, fields, err)
		}
	}
}

// applyOffsetsTopic applies a Topic for __consumer_offsets server-side, with additional fields.
func (f *fixture) applyOffsetsTopic(name, fields string) error {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace}}
	text := `{"apiVersion":"heartwood.dev/v1alpha1","kind":"Topic","metadata":{"name":"` + name +
		`"},"spec":{"cluster":"demo","partitions":1,"topicName":"` + metadata.OffsetsTopic + `"` +
		fields + `}}`
	return f.client.Patch(f.t.Context(), topic,
		client.RawPatch(types.ApplyPatchType, []byte(text)), client.ForceOwnership,
		client.FieldOwner("test"))
}
