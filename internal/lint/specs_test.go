package lint

import (
	"path"
	"slices"
	"testing"
)

// TestControllersSpecsRunInParallel checks that the tests of the controllers use test/kit/specs and
// not Ginkgo, whose specs run one after the other. The Ginkgo specs of api/v1alpha1 are permitted,
// because they do not wait.
func TestControllersSpecsRunInParallel(t *testing.T) {
	for _, file := range sources(t) {
		if path.Dir(file) != "api/v1alpha1" &&
			slices.Contains(imports(t, file), "github.com/onsi/ginkgo/v2") {
			t.Errorf("%s imports Ginkgo: use test/kit/specs", file)
		}
	}
}
