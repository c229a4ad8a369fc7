package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// topicNameBytesMax is Kafka's limit: a directory <topic>-<index> and its suffixes must fit a file
// name of 255 bytes.
const topicNameBytesMax = 249

// resourceNameBytesMax bounds generated names: a label value may have as many bytes, so resources
// can be selected by topic.
const resourceNameBytesMax = 63

// CheckTopicName checks a topic's name as Kafka does; the error wraps ErrInvalidTopicName.
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

// topicNameRune reports whether Kafka allows a character in a topic name.
func topicNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' ||
		r == '_' || r == '-'
}

// OffsetsTopic stores groups and their offsets.
const OffsetsTopic = "__consumer_offsets"

// InternalTopic reports whether only brokers write a topic.
func InternalTopic(name string) bool {
	return name == OffsetsTopic || name == "__transaction_state"
}

// ResourceName returns the name of the Topic resource of a topic: the topic's name if it is a DNS
// name, else one derived from it, with a hash so that Orders and orders differ. It depends on the
// name alone, so two brokers that create a topic at the same time create one resource, and the API
// server rejects the second. spec.topicName is set when the two differ.
func ResourceName(topic string) string {
	if len(topic) <= resourceNameBytesMax && len(validation.IsDNS1123Subdomain(topic)) == 0 {
		return topic
	}
	sum := sha256.Sum256([]byte(topic))
	suffix := "-" + hex.EncodeToString(sum[:4])
	stem := dnsStem(topic)
	stem = strings.TrimRight(stem[:min(len(stem), resourceNameBytesMax-len(suffix))], "-")
	if stem == "" {
		stem = "topic"
	}
	return stem + suffix
}

// dnsStem keeps letters and digits, in lower case, and replaces every other run by one dash. Dots
// are replaced as well: DNS requires letters or digits on both sides of a dot, which "a.-b" lacks.
func dnsStem(topic string) string {
	words := strings.FieldsFunc(strings.ToLower(topic), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}
