package metadata

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func internalTopic(t *testing.T, name, settings string) *v1alpha1.Topic {
	t.Helper()
	topic := &v1alpha1.Topic{}
	topic.Name, topic.Spec.TopicName = "internal", name
	topic.Spec.TopicSettings = settingsOf(t, settings)
	return topic
}

// TestInternalTopicsAreCompacted checks that an internal topic's records are compacted, and not
// deleted by age or size, whatever a stored Topic and the cluster's defaults contain.
func TestInternalTopicsAreCompacted(t *testing.T) {
	cluster := clusterWith(settingsOf(t, `{cleanupPolicy: Delete, retention: {time: 1m}}`))
	for _, name := range []string{OffsetsTopic, TransactionsTopic} {
		for _, stored := range []string{`{}`, `{cleanupPolicy: Delete}`,
			`{cleanupPolicy: CompactDelete, retention: {time: 1m, size: 1}}`} {
			got, err := ResolveTopic(internalTopic(t, name, stored), cluster)
			if err != nil || !got.Settings.Compact || got.Settings.Delete ||
				!slices.Contains(got.Own, "cleanup.policy") {
				t.Errorf("%s with %s: got settings %+v, own %v, error %v", name, stored,
					got.Settings, got.Own, err)
			}
		}
	}
	other, err := ResolveTopic(internalTopic(t, "orders", `{}`), cluster)
	if err != nil || other.Settings.Compact || !other.Settings.Delete {
		t.Errorf("a topic that is not internal: got settings %+v, error %v", other.Settings, err)
	}
}

// TestInternalTopicsKeepTheirPolicy checks that no change through Kafka makes an internal topic
// delete records.
func TestInternalTopicsKeepTheirPolicy(t *testing.T) {
	set := func(op PropertyOp, name, value string) TopicChange {
		return TopicChange{Properties: changes(PropertyChange{name, op, value})}
	}
	for _, stored := range []string{`{}`, `{cleanupPolicy: Compact}`} {
		topic := internalTopic(t, OffsetsTopic, stored)
		for _, change := range []TopicChange{
			set(PropertySet, "cleanup.policy", "delete"),
			set(PropertySet, "cleanup.policy", "compact,delete"),
			set(PropertyDelete, "cleanup.policy", ""),
			set(PropertyAppend, "cleanup.policy", "delete"),
			set(PropertySubtract, "cleanup.policy", "compact"),
			set(PropertySet, "retention.ms", "604800000"),
			set(PropertySet, "retention.bytes", "-1"),
			{Replace: true, Properties: changes(PropertyChange{"segment.ms", PropertySet, "1000"})},
			{Replace: true, Properties: changes(
				PropertyChange{"cleanup.policy", PropertySet, "compact"},
				PropertyChange{"retention.ms", PropertySet, "1"})},
		} {
			if _, err := AlteredTopic(topic, change, nil); !errors.Is(err, ErrInvalidSettings) {
				t.Errorf("%s, %+v: got error %v, want ErrInvalidSettings", stored, change, err)
			}
		}
		for _, change := range []TopicChange{
			set(PropertySet, "segment.bytes", "1048576"),
			set(PropertySet, "cleanup.policy", "compact"),
			set(PropertyDelete, "retention.ms", ""),
			{Replace: true, Properties: changes(
				PropertyChange{"cleanup.policy", PropertySet, "compact"})},
		} {
			got, err := AlteredTopic(topic, change, nil)
			if err != nil || got.Spec.CleanupPolicy != v1alpha1.CleanupCompact {
				t.Errorf("%s, %+v: got topic %+v, error %v", stored, change, got, err)
			}
		}
	}
	for _, properties := range []map[string]string{{"cleanup.policy": "delete"},
		{"retention.ms": "1000"}} {
		if _, err := TopicResource(NewTopic{Name: OffsetsTopic, Partitions: 1, Replicas: 1,
			Properties: properties}, "demo", nil); !errors.Is(err, ErrInvalidSettings) {
			t.Errorf("create with %v: got error %v", properties, err)
		}
	}
	created, err := TopicResource(NewTopic{Name: OffsetsTopic, Partitions: 1, Replicas: 1}, "demo",
		nil)
	if err != nil || created.Spec.CleanupPolicy != v1alpha1.CleanupCompact {
		t.Errorf("created topic %+v, error %v", created, err)
	}
}

func TestCheckInternal(t *testing.T) {
	for _, test := range []struct{ name, before, after, want string }{
		{OffsetsTopic, "", `{}`, ""},
		{OffsetsTopic, `{}`, `{}`, ""},
		{OffsetsTopic, `{}`, `{cleanupPolicy: Compact}`, ""},
		{OffsetsTopic, "", `{cleanupPolicy: Delete}`, "spec.cleanupPolicy: Invalid value"},
		{OffsetsTopic, `{cleanupPolicy: Compact}`, `{}`, "spec.cleanupPolicy: Required value"},
		{TransactionsTopic, `{}`, `{retention: {size: 1}}`, "spec.retention: Forbidden"},
		{"orders", `{cleanupPolicy: Compact}`, `{retention: {size: 1}}`, ""},
	} {
		var before *v1alpha1.Topic
		if test.before != "" {
			before = internalTopic(t, test.name, test.before)
		}
		err := CheckInternal(internalTopic(t, test.name, test.after), before)
		if (test.want == "") != (err == nil) || err != nil &&
			(!errors.Is(err, ErrInvalidSettings) || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: got error %v", test, err)
		}
	}
}
