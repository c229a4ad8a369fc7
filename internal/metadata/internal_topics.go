package metadata

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// internalSettings returns a Topic's settings. The cleanup policy of an internal topic is always
// Compact, even if its resource has none, or one that an earlier CRD allowed. With Delete,
// committed offsets and transactional ids would expire. The policy counts as set by the topic, as
// in Kafka, where brokers create these topics with it.
func internalSettings(topic *v1alpha1.Topic) v1alpha1.TopicSettings {
	settings := topic.Spec.TopicSettings
	if InternalTopic(topic.KafkaName()) {
		settings.CleanupPolicy = v1alpha1.CleanupCompact
	}
	return settings
}

// CheckInternal rejects an internal topic's Topic if it would delete records by age or size. The
// rules are the same as in the CRD. Other topics are not checked. before is the Topic before a
// change, or nil. The error wraps ErrInvalidSettings.
func CheckInternal(topic, before *v1alpha1.Topic) error {
	if !InternalTopic(topic.KafkaName()) {
		return nil
	}
	spec, path := &topic.Spec, field.NewPath("spec")
	var fault *field.Error
	switch policy := spec.CleanupPolicy; {
	case policy != "" && policy != v1alpha1.CleanupCompact:
		fault = field.Invalid(path.Child("cleanupPolicy"), policy, "cleanupPolicy of this topic "+
			"must be Compact: with Delete, committed offsets or transactional ids would expire")
	case policy == "" && before != nil && before.Spec.CleanupPolicy != "":
		fault = field.Required(path.Child("cleanupPolicy"),
			"cleanupPolicy of this topic cannot be removed: keep Compact")
	case spec.Retention != nil:
		fault = field.Forbidden(path.Child("retention"), "this topic has no retention, as committed "+
			"offsets or transactional ids would expire: remove retention")
	default:
		return nil
	}
	return &kindError{fault, ErrInvalidSettings}
}

// checkInternalChange rejects a change through Kafka that deletes an internal topic's cleanup
// policy, even if the topic's resource has none.
func checkInternalChange(topic *v1alpha1.Topic, properties []PropertyChange) error {
	if !InternalTopic(topic.KafkaName()) {
		return nil
	}
	for _, p := range properties {
		if p.Name == "cleanup.policy" && p.Op == PropertyDelete {
			return errorf(ErrInvalidSettings,
				"cleanup.policy of %s must stay compact: it cannot be deleted, and AlterConfigs must "+
					"name it", topic.KafkaName())
		}
	}
	return nil
}
