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
	for file, text := range documents(t, "*.md", "docs/*.md", "docs/*/*.md",
		"docs/*/*/*.md") {
		for _, match := range table.FindAllStringSubmatch(text, -1) {
			found++
			kind, wide := match[1], match[2] != ""
			want := columns(kind, wide)
			if !slices.Equal(strings.Fields(match[3]), strings.Fields(want)) {
				t.Errorf("%s: kubectl get %s%s has the columns %q, want %q", file, kind, match[2],
					match[3], want)
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d tables", found)
	}
}

// documents returns the repository's files that match patterns.
func documents(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(content)
		}
	}
	return texts
}

// columnsOfCRDs returns a function that returns the header line of kubectl get for a resource.
func columnsOfCRDs(t *testing.T) func(plural string, wide bool) string {
	t.Helper()
	all := map[string][]apiextensionsv1.CustomResourceColumnDefinition{}
	for file, text := range documents(t, "charts/heartwood/files/crds/*.yaml") {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
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
