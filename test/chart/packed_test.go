package chart

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/test/kit/await"
)

// pack returns a directory with the packed chart and install.yaml of v0.9.0, as make release writes
// them.
func pack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "hack/pack-chart.sh", "v0.9.0", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pack the chart: %v: %s", err, out)
	}
	return dir
}

// documents returns the objects in a file.
func documents(t *testing.T, path string) (objects []*unstructured.Unstructured) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for decoder := yamlutil.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// samples creates the sample resources in the default namespace. The API server accepts them only
// once it has the CRDs.
func (r *releases) samples(t *testing.T) {
	t.Helper()
	for _, sample := range []string{"logcluster.yaml", "topics.yaml", "users/orders.yaml"} {
		for _, object := range documents(t, root+"config/samples/"+sample) {
			object.SetNamespace("default")
			await.For(t, func() string {
				if err := r.api.Create(t.Context(), object); err != nil {
					return err.Error()
				}
				return ""
			})
		}
	}
}

// TestPackedChartIsInstalled installs the packed chart with Helm on a real API server.
func TestPackedChartIsInstalled(t *testing.T) {
	chart := filepath.Join(pack(t), "heartwood-0.9.0.tgz")
	r := newReleases(t)
	r.ok(t, "install", "first", chart)
	out, ok := r.helm(t, "list", "--output", "json")
	if !ok || !strings.Contains(out, `"chart":"heartwood-0.9.0"`) ||
		!strings.Contains(out, `"app_version":"0.9.0"`) {
		t.Errorf("installed: %t, %s", ok, out)
	}
	r.samples(t)
}

// TestInstallManifestIsApplied applies install.yaml as kubectl apply --server-side does, twice: the
// second time changes nothing.
func TestInstallManifestIsApplied(t *testing.T) {
	objects := documents(t, filepath.Join(pack(t), "install.yaml"))
	r := newReleases(t)
	var versions []map[string]string
	for range 2 {
		applied := map[string]string{}
		for _, object := range objects {
			stored := object.DeepCopy()
			if err := r.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stored),
				client.FieldOwner("kubectl")); err != nil {
				t.Fatalf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
			}
			if err := r.api.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
				t.Fatal(err)
			}
			applied[object.GetKind()+" "+object.GetName()] = fmt.Sprint(stored.GetUID(), " ",
				stored.GetGeneration())
		}
		versions = append(versions, applied)
	}
	if !maps.Equal(versions[0], versions[1]) {
		t.Errorf("applied again: %v, before %v", versions[1], versions[0])
	}
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
	}
	if kinds["CustomResourceDefinition"] != 4 || kinds["Deployment"] != 1 || kinds["Namespace"] != 1 {
		t.Errorf("kinds %v of %v", kinds, slices.Sorted(maps.Keys(kinds)))
	}
	r.samples(t)
}
