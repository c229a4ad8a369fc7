package metadata

import (
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// ResolveSettings returns a topic's settings: its own, else the cluster's defaults, else Kafka's.
// cluster may be nil.
func ResolveSettings(topic v1alpha1.TopicSettings, cluster *v1alpha1.LogCluster) (topicconfig.Settings, error) {
	panic("unwritten")
}

// ResourceSettings is the way back, for topics made through Kafka: settings as a Topic resource writes them, what equals the
// default left out.
func ResourceSettings(s topicconfig.Settings) v1alpha1.TopicSettings { panic("unwritten") }

// Replicas returns how many replicas a topic has: its own number, else the cluster's default, else 1.
func Replicas(topic v1alpha1.TopicSettings, cluster *v1alpha1.LogCluster) int { panic("unwritten") }
