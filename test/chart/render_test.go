package chart

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a part of a rendered object.
type object struct {
	Kind     string
	Metadata struct{ Name string }
}

// render returns the objects of release heartwood, or Helm's error.
func render(t *testing.T, program string, args ...string) (objects []object, failure string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program,
		append([]string{"template", "heartwood", "charts/heartwood"}, args...)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = root, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, stderr.String()
	}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		var rendered object
		if err := yaml.Unmarshal([]byte(document), &rendered); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		objects = append(objects, rendered)
	}
	return objects, ""
}

// mustRender returns the objects of release heartwood.
func mustRender(t *testing.T, program string, args ...string) []object {
	t.Helper()
	objects, failure := render(t, program, args...)
	if failure != "" {
		t.Fatalf("helm template %v: %s", args, failure)
	}
	return objects
}

// TestPagesNameExistingConfigMaps: a ConfigMap that a page names is one that the chart installs.
func TestPagesNameExistingConfigMaps(t *testing.T) {
	known := map[string]bool{}
	for _, o := range mustRender(t, buildHelm(t)) {
		known[o.Kind+" "+o.Metadata.Name] = true
	}
	pages, err := filepath.Glob(root + "docs/operations/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	named := regexp.MustCompile("ConfigMap\\s+`(heartwood[a-z-]*)`")
	found := 0
	for _, page := range pages {
		content := readFile(t, strings.TrimPrefix(page, root))
		for _, match := range named.FindAllStringSubmatch(content, -1) {
			found++
			if !known["ConfigMap "+match[1]] {
				t.Errorf("%s: the chart has no ConfigMap %s", page, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("no ConfigMap found: the expression does not match any more")
	}
}
