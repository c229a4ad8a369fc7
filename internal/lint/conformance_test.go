package lint

import (
	"path"
	"slices"
	"testing"
)

// TestMetadataStoresRunTheConformanceSuite checks that the metadata stores run the suite that tests
// their contract.
func TestMetadataStoresRunTheConformanceSuite(t *testing.T) {
	tested := map[string]bool{}
	for _, file := range sources(t) {
		if isTest(file) && slices.Contains(imports(t, file), module+"test/kit/metadatatest") {
			tested[path.Dir(file)] = true
		}
	}
	for _, pkg := range []string{"internal/metadata/kube", "internal/metadata/local",
		"internal/metadata/remote"} {
		if !tested[pkg] {
			t.Errorf("%s does not run test/kit/metadatatest", pkg)
		}
	}
}
