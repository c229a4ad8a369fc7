package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// table matches a command that prints a table, and the first line of its output.
var table = regexp.MustCompile(`(?m)^\s*\$ kubectl get ([a-z]+)( -o wide)?\n\s*(NAME .*)$`)

// TestTablesHaveTheColumnsOfTheCRDs checks the headers of sample tables in all documents.
func TestTablesHaveTheColumnsOfTheCRDs(t *testing.T) {
	columns := columnsOfCRDs(t)
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range table.FindAllStringSubmatch(string(content), -1) {
				found++
				of, wide := match[1], match[2] != ""
				want := columns(of, wide)
				if !slices.Equal(strings.Fields(match[3]), strings.Fields(want)) {
					t.Errorf("%s: kubectl get %s%s has the columns %q, want %q", file, of, match[2],
						match[3], want)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d tables", found)
	}
}

// columnsOfCRDs returns a function that returns the header of kubectl get for a resource.
func columnsOfCRDs(t *testing.T) func(plural string, wide bool) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "charts", "heartwood", "files",
		"crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]apiextensionsv1.CustomResourceColumnDefinition{}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		content, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(content, &crd)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[crd.Spec.Names.Plural] = crd.Spec.Versions[0].AdditionalPrinterColumns
	}
	return func(plural string, wide bool) string {
		header := "NAME"
		for _, column := range all[plural] {
			if wide || column.Priority == 0 {
				header += "   " + strings.ToUpper(column.Name)
			}
		}
		return header
	}
}
