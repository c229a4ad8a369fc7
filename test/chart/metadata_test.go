package chart

import (
	"encoding/base64"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestChartHasTheMetadataOfCatalogs checks what Artifact Hub and Helm show of the chart: the CRDs,
// the icon and the license must be those of the repository.
func TestChartHasTheMetadataOfCatalogs(t *testing.T) {
	var chart struct {
		Name, Description, Type, KubeVersion, Icon, Home string
		Keywords                                         []string
		Annotations                                      map[string]string
	}
	content := readFile(t, "charts/heartwood/Chart.yaml")
	if err := yaml.Unmarshal([]byte(content), &chart); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"description": chart.Description, "home": chart.Home,
		"type": chart.Type, "keywords": strings.Join(chart.Keywords, ",")} {
		if value == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.HasPrefix(chart.KubeVersion, ">=1.") {
		t.Errorf("kubeVersion is %q", chart.KubeVersion)
	}
	svg := strings.TrimSpace(readFile(t, "internal/console/assets/icon.svg"))
	icon := base64.StdEncoding.EncodeToString([]byte(svg))
	if chart.Icon != "data:image/svg+xml;base64,"+icon {
		t.Error("the icon is not that of the console")
	}
	for key, want := range map[string]string{"license": "Apache-2.0", "operator": "true",
		"category": "streaming-messaging", "operatorCapabilities": "Deep Insights"} {
		if got := chart.Annotations["artifacthub.io/"+key]; got != want {
			t.Errorf("annotation artifacthub.io/%s is %q, want %q", key, got, want)
		}
	}
	if !strings.Contains(readFile(t, "LICENSE"), "Apache License") {
		t.Error("the license is another one")
	}
	var shown []struct{ Kind, Version, Name, DisplayName, Description string }
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crds"]),
		&shown); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, crd := range shown {
		got[crd.Name+" "+crd.Version+" "+crd.Kind] = crd.DisplayName != "" && crd.Description != ""
	}
	if want := servedCRDs(t); !maps.Equal(got, want) {
		t.Errorf("annotation artifacthub.io/crds: %v, want %v", slices.Sorted(maps.Keys(got)),
			slices.Sorted(maps.Keys(want)))
	}
}

// servedCRDs returns the name, version and kind of each CRD.
func servedCRDs(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(root + "config/crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	served := map[string]bool{}
	for _, file := range files {
		var crd struct {
			Metadata struct{ Name string }
			Spec     struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
		content := readFile(t, strings.TrimPrefix(file, root))
		if err := yaml.Unmarshal([]byte(content), &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Served {
				served[crd.Metadata.Name+" "+version.Name+" "+crd.Spec.Names.Kind] = true
			}
		}
	}
	return served
}
