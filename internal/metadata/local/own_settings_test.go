package local

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestSetSettingsSurviveAnotherDefault checks that settings that are set to the default, by Kafka
// or in a manifest, change neither when the LogCluster gets another default nor after a restart.
func TestSetSettingsSurviveAnotherDefault(t *testing.T) {
	fs := memory(t)
	s := open(t, fs)
	sync := func(cluster string) {
		t.Helper()
		if err := s.Sync(logCluster(t, cluster), 1,
			topics(t, "manifest {retention: {time: 168h}}", "silent {}")); err != nil {
			t.Fatal(err)
		}
	}
	sync(`{}`)
	for _, name := range []string{"created", "altered", "replaced"} {
		request := metadata.NewTopic{Name: name, Partitions: 1, Replicas: -1}
		if name == "created" {
			request.Properties = map[string]string{"retention.ms": "604800000"}
		}
		if err := create(s, request); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"altered", "replaced"} {
		if err := s.AlterTopic(t.Context(), metadata.TopicChange{Name: name,
			Properties: setProperty("retention.ms", "604800000"),
			Replace:    name == "replaced"}); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, fs)
	sync(`{topicDefaults: {retention: {time: 1h}}}`)
	week := 7 * 24 * time.Hour
	for name, want := range map[string]time.Duration{"created": week, "altered": week,
		"replaced": week, "manifest": week, "silent": time.Hour} {
		topic := s.Image().Topic(name)
		if topic.Settings.RetentionTime != want ||
			slices.Contains(topic.Own, "retention.ms") != (want == week) {
			t.Errorf("%s: retention %s and own properties %v, want %s", name,
				topic.Settings.RetentionTime, topic.Own, want)
		}
	}
	if err := s.AlterTopic(t.Context(), metadata.TopicChange{Name: "created",
		Properties: []metadata.PropertyChange{{Name: "retention.ms",
			Op: metadata.PropertyDelete}}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Image().Topic("created").Settings.RetentionTime; got != time.Hour {
		t.Errorf("retention %s after its deletion, want the default", got)
	}
}
