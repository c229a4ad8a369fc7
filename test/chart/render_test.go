package chart

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a part of a rendered object.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     rules // rules of a PrometheusRule
}

// render returns the objects of the release heartwood, or Helm's error.
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

// mustRender returns the objects of the release heartwood.
func mustRender(t *testing.T, program string, args ...string) []object {
	t.Helper()
	objects, failure := render(t, program, args...)
	if failure != "" {
		t.Fatalf("helm template %v: %s", args, failure)
	}
	return objects
}

// TestPagesNameExistingConfigMaps checks that the chart installs every ConfigMap that a page names.
func TestPagesNameExistingConfigMaps(t *testing.T) {
	known := map[string]bool{}
	for _, o := range mustRender(t, buildHelm(t)) {
		known[o.Kind+" "+o.Metadata.Name] = true
	}
	pages, err := filepath.Glob(root + "docs/operate/*.md")
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

// TestExcludedRulesAreAbsent checks that monitoring.excludeRules removes the named alerts and no
// others, even if it removes a whole group. It refuses a name that no alert has.
func TestExcludedRulesAreAbsent(t *testing.T) {
	program := buildHelm(t)
	alerts := func(args ...string) (groups int, names []string) {
		found := false
		for _, o := range mustRender(t, program,
			append([]string{"--set", "monitoring.enabled=true"}, args...)...) {
			if o.Kind != "PrometheusRule" {
				continue
			}
			found, groups = true, len(o.Spec.Groups)
			for _, group := range o.Spec.Groups {
				for _, rule := range group.Rules {
					names = append(names, rule.Alert)
				}
			}
		}
		if !found {
			t.Fatalf("%v: no PrometheusRule", args)
		}
		return groups, names
	}
	groups, all := alerts()
	var storage []string // all alerts of the second group
	for _, name := range all {
		if strings.HasPrefix(name, "HeartwoodVolume") {
			storage = append(storage, name)
		}
	}
	if groups != 2 || len(storage) == 0 {
		t.Fatalf("%d groups of %v, want a second one about volumes", groups, all)
	}
	for _, test := range []struct {
		excluded []string
		groups   int
	}{
		{[]string{"HeartwoodFileDescriptorsLow"}, 2},
		{[]string{all[0], all[len(all)-1]}, 2},
		{storage, 1},
	} {
		left, got := alerts("--set",
			"monitoring.excludeRules={"+strings.Join(test.excluded, ",")+"}")
		want := slices.DeleteFunc(slices.Clone(all),
			func(name string) bool { return slices.Contains(test.excluded, name) })
		if left != test.groups || !slices.Equal(got, want) {
			t.Errorf("without %v: %d groups of %v, want %d of %v", test.excluded, left, got,
				test.groups, want)
		}
	}
	_, failure := render(t, program, "--set", "monitoring.enabled=true", "--set",
		"monitoring.excludeRules={HeartwoodFileDescriptorsLow,HeartwoodUnknown}")
	if !strings.Contains(failure, "monitoring.excludeRules: there is no alert HeartwoodUnknown") {
		t.Errorf("an unknown name: %q", failure)
	}
}

// TestExcludeRulesIsDocumented checks that the metrics page describes the value.
func TestExcludeRulesIsDocumented(t *testing.T) {
	if !strings.Contains(readFile(t, "docs/operate/metrics.md"), "monitoring.excludeRules") {
		t.Error("docs/operate/metrics.md does not describe monitoring.excludeRules")
	}
}
