package console

import (
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// TestSettingsHaveUnits checks that numeric settings are shown with readable units.
func TestSettingsHaveUnits(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"max.compaction.lag.ms", "9223372036854775807", "no limit"},
		{"flush.messages", "9223372036854775807", "no limit"}, {"flush.messages", "1", ""},
		{"retention.bytes", "-1", "no limit"}, {"retention.ms", "-1", "no limit"},
		{"compression.gzip.level", "-1", ""}, {"local.retention.ms", "-2", ""},
		{"retention.ms", "604800000", "7 days"}, {"segment.ms", "86400000", "1 day"},
		{"segment.ms", "5400000", "90 minutes"}, {"segment.ms", "90000", "90 seconds"},
		{"segment.ms", "604800001", "about 7 days"}, {"segment.ms", "500", "500 ms"},
		{"segment.ms", "9223372036854775806", "9,223,372,036,854,775,806 ms"},
		{"segment.jitter.ms", "0", "0 s"}, {"segment.bytes", "1073741824", "1 GiB"},
		{"min.cleanable.dirty.ratio", "0.3", "30 %"},
		{"min.cleanable.dirty.ratio", "0.001", "0.1 %"},
		{"min.cleanable.dirty.ratio", "a", ""}, {"cleanup.policy", "compact", ""},
		{"min.insync.replicas", "2", ""}, {"preallocate", "false", ""}, {"retention.ms", "", ""},
	} {
		if got := settingText(test.name, test.value); got != test.want {
			t.Errorf("%s=%s: got %q, want %q", test.name, test.value, got, test.want)
		}
	}
}

// TestOwnSettingsAreShown checks that settings that do not exist in Kafka come first, and that the
// page works if brokers of older releases do not report the cleaner's settings.
func TestOwnSettingsAreShown(t *testing.T) {
	settings := []kafka.Setting{{Name: "cleanup.policy", Value: "compact", Source: "topic"},
		{Name: "flush.messages", Value: "1", Source: "topic", Overridden: "9223372036854775807"}}
	answers := remote.Answers{Partitions: []report.Partition{{}, {Compaction: &report.Compaction{}},
		{Compaction: &report.Compaction{MaxGarbagePercent: new(0), CleanCompression: "zstd 12"}}}}
	rows := settingRows(settings, answers)
	want := []kafka.Setting{
		{Name: "durability", Value: "Fsync", Source: "topic", Overridden: "Replicated"},
		{Name: "maxGarbagePercent", Value: "0", Source: "Topic or LogCluster"},
		{Name: "cleanCompression", Value: "zstd 12", Source: "Topic or LogCluster"},
		settings[0], settings[1]}
	if len(rows) != len(want) {
		t.Fatalf("got %+v", rows)
	}
	for i := range rows {
		if rows[i].Setting != want[i] {
			t.Errorf("row %d: got %+v, want %+v", i, rows[i].Setting, want[i])
		}
	}
	answers.Partitions = answers.Partitions[:2]
	if rows := settingRows(settings, answers); len(rows) != 3 {
		t.Errorf("without a report: got %+v", rows)
	}
}
