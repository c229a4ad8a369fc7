package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// topicNameBytesMax is Kafka's maximum length of a topic name. It leaves room in a directory name
// of 255 bytes for "-<partition>" and a suffix.
const topicNameBytesMax = 249

// resourceNameBytesMax is the maximum length of generated resource names. It equals Kubernetes'
// limit for a label value, so that a label can contain the name and select the topic's resources.
const resourceNameBytesMax = 63

// CheckTopicName checks a topic's name by Kafka's rules. The error wraps ErrInvalidTopicName.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it must not be empty", ErrInvalidTopicName)
	case name == "." || name == "..":
		return fmt.Errorf("%w %q: it must not be \".\" or \"..\"", ErrInvalidTopicName, name)
	case len(name) > topicNameBytesMax:
		return fmt.Errorf("%w %.20q...: it has %d characters, at most %d are allowed",
			ErrInvalidTopicName, name, len(name), topicNameBytesMax)
	case strings.ContainsFunc(name, func(r rune) bool { return !topicNameRune(r) }):
		return fmt.Errorf("%w %q: letters, digits, '.', '_' and '-' are allowed",
			ErrInvalidTopicName, name)
	}
	return nil
}

// CheckCollision returns an error that wraps ErrInvalidTopicName if a new name differs from an
// existing topic's name only in '.' and '_'. Kafka rejects such a topic, because tools that replace
// dots would give the metrics of both topics the same names.
func CheckCollision(name string, existing iter.Seq[string]) error {
	for other := range existing {
		if other != name && CollisionKey(other) == CollisionKey(name) {
			return fmt.Errorf("%w: topic %q collides with the existing topic %q, as '.' and '_' "+
				"are the same in names of metrics", ErrInvalidTopicName, name, other)
		}
	}
	return nil
}

// CollisionKey returns a text that is equal for topics whose names collide.
func CollisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// topicNameRune reports whether Kafka allows a character in a topic name.
func topicNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' ||
		r == '_' || r == '-'
}

// OffsetsTopic is the internal topic that stores consumer groups and their committed offsets.
const OffsetsTopic = "__consumer_offsets"

// TransactionsTopic is the internal topic that stores transactional ids.
const TransactionsTopic = "__transaction_state"

// InternalTopic reports whether the topic is internal, so that only brokers write it.
func InternalTopic(name string) bool {
	return name == OffsetsTopic || name == TransactionsTopic
}

// ResourceName returns the name of a topic's Topic resource. If the topic's name is a DNS name of
// at most 63 bytes, the resource has the same name. Otherwise the resource's name is derived from
// the topic's name and ends with a hash of that name, so that the topics Orders and orders have
// different resources. spec.topicName then contains the topic's name.
//
// The result depends only on the topic's name. So if two brokers create a topic at the same time,
// they use the same resource name, and the API server rejects the second request.
func ResourceName(topic string) string {
	if len(topic) <= resourceNameBytesMax && len(validation.IsDNS1123Subdomain(topic)) == 0 {
		return topic
	}
	return hashedName(topic, topic)
}

// ResourceNameIn returns the name of a topic's Topic resource if the name ResourceName(topic) is
// already taken by a Topic of another LogCluster in the same namespace, as for __consumer_offsets.
func ResourceNameIn(cluster, topic string) string {
	return hashedName(topic, cluster+"/"+topic) // unique, because no topic's name contains a slash
}

// hashedName returns a name that begins like the topic's name and ends with a hash of id.
func hashedName(topic, id string) string {
	sum := sha256.Sum256([]byte(id))
	suffix := "-" + hex.EncodeToString(sum[:4])
	stem := dnsStem(topic)
	stem = strings.TrimRight(stem[:min(len(stem), resourceNameBytesMax-len(suffix))], "-")
	if stem == "" {
		stem = "topic"
	}
	return stem + suffix
}

// dnsStem converts a topic's name to lower case and replaces each run of characters other than
// letters and digits with one dash. It also replaces dots, because DNS requires a letter or digit
// on both sides of a dot: "a.-b" is invalid.
func dnsStem(topic string) string {
	words := strings.FieldsFunc(strings.ToLower(topic), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}
