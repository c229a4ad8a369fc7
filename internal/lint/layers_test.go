package lint

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "heartwood.dev/heartwood/"

// kubernetes lists the directories whose packages may import Kubernetes client libraries. kafka
// lists the directories whose packages may import Kafka protocol types.
var (
	kubernetes = []string{
		"api", "controllers", "internal/access/kube", "internal/operator", "internal/metadata/kube",
		"cmd", "internal/cli", "internal/console/kube", "test", "hack",
		// These two use Kubernetes' types and the API server's validation code, but no client.
		"internal/manifest", "internal/convert",
		"config/crd", // its tests check the CRDs on an API server
	}
	kafka = []string{"internal/wire", "internal/handler", "internal/coordinator", "internal/broker",
		"internal/bench/client", "internal/cli", "internal/console", "internal/kafkaclient", "test",
		"hack", "examples"}
)

func TestImportsGoDownward(t *testing.T) {
	used := map[string]map[string]bool{} // imports by the code of each package, without tests
	for _, file := range sources(t) {
		pkg := path.Dir(file)
		if top := strings.SplitN(pkg, "/", 2)[0]; top == "cmd" || top == "test" || top == "hack" ||
			top == "examples" {
			continue // may import any package
		}
		allowed, known := layers[pkg]
		if !known && pkg != "internal" {
			t.Errorf("%s: package %s is missing in layers_table_test.go", file, pkg)
			continue
		}
		for _, imported := range imports(t, file) {
			rel, inModule := strings.CutPrefix(imported, module)
			if !inModule || rel == pkg {
				continue
			}
			if isTest(file) {
				if !mayTestImport(pkg, rel) {
					t.Errorf("%s imports %s: not in layers or testLayers", file, rel)
				}
				continue
			}
			if !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s: not in layers", file, rel)
			}
			if used[pkg] == nil {
				used[pkg] = map[string]bool{}
			}
			used[pkg][rel] = true
		}
	}
	for pkg, allowed := range layers {
		for _, imported := range allowed {
			if !used[pkg][imported] {
				t.Errorf("layers: %s does not import %s; remove the entry", pkg, imported)
			}
		}
	}
}

// mayTestImport reports whether the tests of package pkg may import another package. The other
// package must be in test/kit or listed in testLayers, or pkg must import it directly or
// indirectly.
func mayTestImport(pkg, imported string) bool {
	return strings.HasPrefix(imported, "test/kit") || slices.Contains(testLayers[pkg], imported) ||
		reaches(pkg, imported)
}

// reaches reports whether package pkg imports another package directly or indirectly, according to
// layers.
func reaches(pkg, imported string) bool {
	return slices.ContainsFunc(layers[pkg],
		func(below string) bool { return below == imported || reaches(below, imported) })
}

func TestKubernetesAndKafkaStaySeparate(t *testing.T) {
	for _, file := range sources(t) {
		for _, imported := range imports(t, file) {
			switch {
			case strings.HasPrefix(imported, "k8s.io/client-go"),
				strings.HasPrefix(imported, "sigs.k8s.io/controller-runtime"),
				strings.HasPrefix(imported, "k8s.io/apiextensions-apiserver"):
				if !below(file, kubernetes) {
					t.Errorf("%s imports %s: only the packages in kubernetes may", file, imported)
				}
			case strings.HasPrefix(imported, "github.com/twmb/franz-go"):
				if !below(file, kafka) && !isTest(file) {
					t.Errorf("%s imports %s: only the packages in kafka may", file, imported)
				}
			}
		}
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imported)
	}
	return all
}

func below(file string, folders []string) bool {
	return slices.ContainsFunc(folders,
		func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.go") }
