package metadata

import (
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestScrubIsResolvedFromTheLogCluster(t *testing.T) {
	week := 7 * 24 * time.Hour
	for spec, want := range map[string]Scrub{
		"{}":                             {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {}}":                    {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {interval: 24h}}":       {24 * time.Hour, 20 << 20, v1alpha1.VerifyOnce},
		`{scrub: {interval: Never}}`:     {0, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {interval: 1s}}":        {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {rate: 1Mi}}":           {week, 1 << 20, v1alpha1.VerifyOnce},
		"{scrub: {rate: -1}}":            {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {verifyReads: Never}}":  {week, 20 << 20, v1alpha1.VerifyNever},
		"{scrub: {verifyReads: Always}}": {week, 20 << 20, v1alpha1.VerifyAlways},
		"{scrub: {verifyReads: Once}}":   {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {verifyReads: later}}":  {week, 20 << 20, v1alpha1.VerifyOnce},
		"{scrub: {interval: 168h}}":      {week, 20 << 20, v1alpha1.VerifyOnce},
	} {
		var cluster v1alpha1.LogCluster
		if err := yaml.Unmarshal([]byte("spec: "+spec), &cluster); err != nil {
			t.Fatal(err)
		}
		if got := ResolveScrub(&cluster); got != want {
			t.Errorf("%s: got %+v, want %+v", spec, got, want)
		}
	}
	if got := ResolveScrub(nil); got != (Scrub{week, 20 << 20, v1alpha1.VerifyOnce}) {
		t.Errorf("without a LogCluster: %+v", got)
	}
}
