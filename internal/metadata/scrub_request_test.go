package metadata

import (
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestScrubRequestOfTheAnnotation(t *testing.T) {
	for text, want := range map[string]ScrubRequest{
		"": {}, "monday": {Value: "monday"},
		"tickets=monday": {Topic: "tickets", Value: "tickets=monday"},
	} {
		cluster := &v1alpha1.LogCluster{}
		cluster.Annotations = map[string]string{v1alpha1.AnnotationScrubNow: text}
		image := NewImage("c", CleanerBudget{}, nil, nil).WithPolicies(cluster)
		if image.ScrubNow != want {
			t.Errorf("%q: %+v, want %+v", text, image.ScrubNow, want)
		}
	}
	if got := NewImage("c", CleanerBudget{}, nil, nil).WithPolicies(nil).ScrubNow; got.Value != "" {
		t.Errorf("without a LogCluster: %+v", got)
	}
}
