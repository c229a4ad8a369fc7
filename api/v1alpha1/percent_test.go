package v1alpha1

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPercentKeepsItsDigits checks that decimal numbers, and integers from earlier manifests, are
// written as they were read.
func TestPercentKeepsItsDigits(t *testing.T) {
	for text, want := range map[string]string{"50": "50", "0": "0", "12.5": "12.5", "0.1": "0.1",
		"33.3": "33.3", "100": "100", "1e-7": "1e-07", "0.123456789012345": "0.123456789012345"} {
		var settings Compaction
		if err := yaml.UnmarshalStrict([]byte("minDirtyPercent: "+text), &settings); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		written, err := yaml.Marshal(settings)
		if err != nil || string(written) != "minDirtyPercent: "+want+"\n" {
			t.Errorf("%s: written as %q, error %v", text, written, err)
		}
	}
	for _, text := range []string{"ten", "[1]", "{}", "true"} {
		if err := yaml.Unmarshal([]byte("minDirtyPercent: "+text), &Compaction{}); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
