package admin

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// TestDescribeConfigsReportsSources checks that the Topic is the source of each value that it sets,
// and the LogCluster the source of each default that it sets. This also holds for values that equal
// the value that they override.
func TestDescribeConfigsReportsSources(t *testing.T) {
	topic := &metadata.Topic{Settings: topicconfig.Default(),
		Own: []string{"retention.ms", "segment.ms"}}
	topic.Settings.RetentionTime, topic.Settings.MinLag = time.Second, time.Minute
	img := &metadata.Image{ClusterProperties: map[string]string{"log.retention.ms": "1000",
		"log.cleaner.min.compaction.lag.ms": "60000", "log.cleanup.policy": "delete"}}
	want := map[string][]synonym{
		"retention.ms": {{"retention.ms", "1000", 1}, {"log.retention.ms", "1000", 3},
			{"log.retention.ms", "604800000", 5}},
		"segment.ms": {{"segment.ms", "604800000", 1}, {"log.roll.ms", "604800000", 5}},
		"min.compaction.lag.ms": {{"log.cleaner.min.compaction.lag.ms", "60000", 3},
			{"log.cleaner.min.compaction.lag.ms", "0", 5}},
		"cleanup.policy": {{"log.cleanup.policy", "delete", 3}, {"log.cleanup.policy", "delete", 5}},
		"segment.bytes":  {{"log.segment.bytes", "1073741824", 5}},
	}
	for _, config := range topicConfigs(topic, img) {
		if expected, ok := want[config.Name]; ok &&
			(!slices.Equal(config.synonyms, expected) || config.source != expected[0].source) {
			t.Errorf("%s: %+v, want %+v", config.Name, config.synonyms, expected)
		}
	}
}
