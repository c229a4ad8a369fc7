package console

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

// TestProblemsAreSortedBySeverity checks that a partition whose leader is starting comes after
// partitions that are unavailable or reject writes, because it recovers by itself.
func TestProblemsAreSortedBySeverity(t *testing.T) {
	var answers remote.Answers
	for i, reason := range []string{"Reassigning", "LeaderStarting", "UnderMinInSyncReplicas",
		"LeaderOffline", "ReplicaLost"} {
		answers.Placement.Partitions = append(answers.Placement.Partitions,
			report.PlacedPartition{Topic: "tickets", Partition: int32(i), Reason: reason})
	}
	for i, level := range []string{"Warn", "Reserve", "None", "Reject"} {
		answers.Volumes = append(answers.Volumes, report.Volume{Broker: int32(i), Pressure: level})
	}
	var got []string
	for _, p := range problemsOf(answers) {
		got = append(got, p.Kind)
	}
	want := []string{"Records refused", "Records refused", "Offline", "Records lost", "Too few in sync",
		"Volume filling", "Starting", "Moving"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
