package lint

import (
	"path"
	"slices"
	"testing"
)

// TestControllersSpecsRunInParallel checks that the controllers do not have specs of Ginkgo, which
// run one after another: test/kit/specs. The specs of api/v1alpha1 do not wait.
func TestControllersSpecsRunInParallel(t *testing.T) {
	for _, file := range sources(t) {
		if path.Dir(file) != "api/v1alpha1" &&
			slices.Contains(imports(t, file), "github.com/onsi/ginkgo/v2") {
			t.Errorf("%s imports Ginkgo: use test/kit/specs", file)
		}
	}
}
