package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// room returns the folder of a package: internal/NAME, or the first element of its path.
func room(pkg string) string {
	elements := strings.SplitN(pkg, "/", 3)
	if elements[0] == "internal" && len(elements) > 1 {
		return elements[0] + "/" + elements[1]
	}
	return elements[0]
}

// TestFoldersImportInOneDirection checks that no two folders import each other, directly or through
// other folders. The compiler prevents import cycles only between packages. A folder in a cycle
// would have no place in the layers.
func TestFoldersImportInOneDirection(t *testing.T) {
	below := map[string]map[string]bool{}
	for pkg, imported := range layers {
		for _, other := range imported {
			if from, to := room(pkg), room(other); from != to {
				if below[from] == nil {
					below[from] = map[string]bool{}
				}
				below[from][to] = true
			}
		}
	}
	done := map[string]bool{}
	var visit func(folder string, above []string)
	visit = func(folder string, above []string) {
		if i := slices.Index(above, folder); i >= 0 {
			t.Errorf("folders import each other: %s", strings.Join(append(above[i:], folder), " -> "))
			return
		}
		if done[folder] {
			return
		}
		for _, other := range slices.Sorted(maps.Keys(below[folder])) {
			visit(other, append(slices.Clip(above), folder))
		}
		done[folder] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(below)) {
		visit(folder, nil)
	}
}
