package metadata

import (
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pressure"
)

// TestThresholdsOfAUserAreExact checks that the highest threshold that the LogCluster sets, and the
// lower ones, apply regardless of the free space.
func TestThresholdsOfAUserAreExact(t *testing.T) {
	if got := ResolvePressure(&v1alpha1.LogCluster{}); got != pressure.Default() {
		t.Errorf("no thresholds: %+v, want the defaults", got)
	}
	seventy := new(int32(70))
	for _, test := range []struct {
		spec v1alpha1.StoragePressure
		want pressure.Thresholds
	}{
		{v1alpha1.StoragePressure{WarnPercent: seventy},
			pressure.Thresholds{Warn: 70, Clean: 85, Reject: 92, Exact: pressure.Warn}},
		{v1alpha1.StoragePressure{WarnPercent: seventy, CleanPercent: seventy},
			pressure.Thresholds{Warn: 70, Clean: 70, Reject: 92, Exact: pressure.Clean}},
		{v1alpha1.StoragePressure{WarnPercent: seventy, CleanPercent: seventy, RejectPercent: seventy},
			pressure.Thresholds{Warn: 70, Clean: 70, Reject: 70, Exact: pressure.Reject}},
	} {
		cluster := &v1alpha1.LogCluster{}
		cluster.Spec.Storage.Pressure = &test.spec
		if got := ResolvePressure(cluster); got != test.want {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
}
