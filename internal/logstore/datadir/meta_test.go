package datadir

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
)

func TestDirectoryNamesAreReadFromTheLastDash(t *testing.T) {
	for name, want := range map[string]checkpoint.PartitionID{
		"a-0": {Topic: "a", Index: 0}, "a-b-12": {Topic: "a-b", Index: 12},
		"a.b_c-1": {Topic: "a.b_c", Index: 1}, "__x-49": {Topic: "__x", Index: 49},
		"--3": {Topic: "-", Index: 3}, "1-2-3": {Topic: "1-2", Index: 3},
	} {
		if got, ok := ParsePartition(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "a", "-0", "a-", "a-x", "a-00", "a-+1", "a--1x",
		"a-0.0123-delete", "a-0.0123-retained", "a-0-stray", "a-99999999999",
		"my backup-1", "a\tb-0", "a\n-0", "ä-0", "a/b-0"} {
		if got, ok := ParsePartition(name); ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
}

func TestReleasedNamesFitADirectory(t *testing.T) {
	id := checkpoint.PartitionID{Topic: strings.Repeat("t", 249), Index: 12345}
	for _, suffix := range []string{DeleteSuffix, RetainedSuffix} {
		name := ReleasedName(id, TopicID{1}, suffix)
		if len(name) != nameBytesMax || !strings.HasSuffix(name, suffix) {
			t.Errorf("%d bytes: %s", len(name), name)
		}
	}
}
