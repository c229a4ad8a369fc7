package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// topicNameBytesMax is Kafka's: a directory <topic>-<index> and its suffixes must fit a file name
// of 255 bytes.
const topicNameBytesMax = 249

// resourceNameBytesMax bounds the names we make up: a label's value may have as many, so resources
// can be selected by topic.
const resourceNameBytesMax = 63

// CheckTopicName checks a topic's name as Kafka does; the error wraps ErrInvalidTopicName.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidTopicName)
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

// topicNameRune tells what Kafka lets a name be made of.
func topicNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' ||
		r == '_' || r == '-'
}

// OffsetsTopic is where groups and their offsets are stored.
const OffsetsTopic = "__consumer_offsets"

// InternalTopic tells whether a topic is the brokers' own.
func InternalTopic(name string) bool {
	return name == OffsetsTopic || name == "__transaction_state"
}

// ResourceName returns the name of the Topic resource for a topic: its own where that is a DNS
// name, else one made from it, with a hash so that Orders and orders stay two topics. It is a
// function of the name alone, so two brokers asked for one topic at the same time make one
// resource, and the API server refuses the second. spec.topicName is set when the two differ.
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

// dnsStem keeps a name's letters and digits, lower-case, and turns every run of anything else into
// one dash. Dots go too: between them DNS wants letters or digits at both ends, which "a.-b" has
// not.
func dnsStem(topic string) string {
	words := strings.FieldsFunc(strings.ToLower(topic), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}
