package convert

import (
	"maps"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

type topic struct {
	result
	to *v1alpha1.Topic
}

func newTopic(s *source) *topic {
	return &topic{result: result{source: s}, to: &v1alpha1.Topic{}}
}

func (t *topic) document() Document {
	spec := t.source.child("spec")
	name := t.source.name()
	if topicName := spec.text("topicName"); topicName != "" {
		name = topicName
	}
	// The operator of Strimzi deletes the topic when its resource is deleted.
	t.to.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete
	if t.source.child("metadata").child("annotations").text(managedAnnotation) == "false" {
		t.to.Spec.ReclaimPolicy = v1alpha1.ReclaimRetain // such a topic outlives its resource
	}
	t.to.Spec.Cluster = t.source.cluster()
	t.to.ObjectMeta = t.metadata()
	t.to.APIVersion, t.to.Kind = v1alpha1.GroupVersion.String(), "Topic"
	if name != t.to.Name {
		t.to.Spec.TopicName = name
	}
	if t.to.Spec.Cluster == "" {
		t.lost("metadata.labels", "the label %s is missing: set spec.cluster", clusterLabel)
		t.to.Spec.Cluster = "unknown"
	}
	if n, ok := spec.number("partitions", 1, 10000); ok {
		t.to.Spec.Partitions = int32(n)
	}
	t.settings(spec)
	return t.result.document(t.to, nil)
}

// settings converts the configs and the number of replicas.
func (t *topic) settings(spec *source) {
	if n, ok := spec.number("replicas", 1, 15); ok {
		t.to.Spec.Replicas = new(int32(n))
	}
	config := spec.child("config")
	for _, name := range slices.Sorted(maps.Keys(config.content)) {
		value, ok := configValue(config, name)
		if !ok {
			continue
		}
		altered, err := metadata.AlteredTopic(t.to, metadata.TopicChange{Properties: []metadata.
			PropertyChange{{Name: name, Value: value}}}, nil)
		switch {
		case err != nil:
			t.lost(config.at(name), "%v", err)
		case topicconfig.Ignored(name):
			t.note(config.at(name), "has no effect here")
		default:
			t.to = altered
		}
	}
}

// configValue returns a config as Kafka's text. A list is written with commas, as Strimzi does.
func configValue(config *source, name string) (string, bool) {
	if list := config.texts(name); list != nil {
		return strings.Join(list, ","), true
	}
	if !config.has(name) {
		return "", false // Strimzi ignores null
	}
	value := config.text(name)
	return value, config.read[name]
}
