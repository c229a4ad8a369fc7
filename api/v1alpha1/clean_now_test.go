package v1alpha1

import (
	"strings"
	"testing"
)

func TestCleanNowIsTruncatedBetweenCharacters(t *testing.T) {
	for value, want := range map[string]string{
		"":                       "",
		"2026-11-21":             "2026-11-21",
		strings.Repeat("x", 128): strings.Repeat("x", 128),
		strings.Repeat("x", 500): strings.Repeat("x", 128),
		strings.Repeat("x", 127) + "\u00e9 and more": strings.Repeat("x", 127),
	} {
		topic := Topic{}
		topic.Annotations = map[string]string{AnnotationCleanNow: value}
		if got := topic.CleanNow(); got != want {
			t.Errorf("%q is truncated to %q, want %q", value, got, want)
		}
	}
	if got := (&Topic{}).CleanNow(); got != "" {
		t.Errorf("%q without an annotation", got)
	}
}
