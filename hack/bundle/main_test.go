package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/internal/manifest"
)

const root = "../.."

// command returns the path of a program that is a Go tool of another module.
func command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool"}, args...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// newSource returns the source of the bundle of v0.1.0, from the chart in this repository.
func newSource(t *testing.T) *source {
	t.Helper()
	helm := command(t, "-n", "-modfile=hack/tools/helm/go.mod", "helm")
	cmd := exec.CommandContext(t.Context(), helm, "template", "heartwood", "charts/heartwood",
		"--namespace", "heartwood-system", "--set",
		"image.digest=sha256:"+strings.Repeat("0", 64))
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	rendered := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(rendered, out, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &source{version: "v0.1.0", created: "2026-11-28T00:00:00Z", archs: "amd64,arm64"}
	if err := s.read(rendered, root+"/charts/heartwood/Chart.yaml",
		root+"/config/samples"); err != nil {
		t.Fatal(err)
	}
	return s
}

// written writes a bundle and returns its directory.
func written(t *testing.T, s *source) string {
	t.Helper()
	dir := t.TempDir()
	if err := s.write(dir+"/bundle", dir+"/policies.yaml"); err != nil {
		t.Fatal(err)
	}
	return dir + "/bundle"
}

// validate returns what Operator Framework's validators print on a bundle, and whether they accept
// it.
func validate(t *testing.T, program, dir string) (printed string, ok bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, dir).CombinedOutput()
	return string(out), err == nil
}

// TestBundleIsValid checks a bundle of the chart with Operator Framework's validators.
func TestBundleIsValid(t *testing.T) {
	printed, ok := validate(t, command(t, "-C", "hack/tools/olm", "-n", "olm"),
		written(t, newSource(t)))
	if !ok {
		t.Errorf("refused:\n%s", printed)
	}
	for line := range strings.Lines(printed) {
		// Only the operator writes PartitionSets.
		if !strings.Contains(line, "Kind=PartitionSet: provided API should have an example") {
			t.Errorf("unexpected: %s", line)
		}
	}
}

// TestBrokenBundlesAreRefused breaks a valid bundle and checks that the validators complain.
func TestBrokenBundlesAreRefused(t *testing.T) {
	program := command(t, "-C", "hack/tools/olm", "-n", "olm")
	s := newSource(t)
	const csv = "manifests/heartwood.clusterserviceversion.yaml"
	topics := "manifests/customresourcedefinition-topics.heartwood.dev.yaml"
	for name, test := range map[string]struct{ file, old, with, want string }{
		"a CRD is missing":   {topics, "", "", "Kind=Topic\" not found"},
		"the CSV is missing": {csv, "", "", "unable to find a csv"},
		"invalid minKubeVersion": {csv, "minKubeVersion: 1.30.0", "minKubeVersion: v1",
			"MinKubeVersion has an invalid value"},
		"no install modes": {csv, "supported: true", "supported: false",
			"none of InstallModeTypes are supported"},
		"unknown category": {csv, "Streaming & Messaging", "Logs",
			"is not in the set of standard categories"},
		"unknown capability": {csv, "Deep Insights", "Deep", "is not a valid capabilities level"},
		"invalid example": {csv, "alm-examples: |-\n      [", "alm-examples: |-\n      {",
			"invalid example"},
		"example of another kind": {csv, `"kind": "LogUser"`, `"kind": "Other"`,
			"example must have a provided API"},
		"no icon type": {csv, "mediatype: image/svg+xml", "mediatype: text/html",
			"does not have a valid mediatype"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, s)
			path := filepath.Join(dir, test.file)
			if test.old == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				content, err := os.ReadFile(path)
				if err != nil || !bytes.Contains(content, []byte(test.old)) {
					t.Fatalf("%s does not contain %q: %v", test.file, test.old, err)
				}
				if err := os.WriteFile(path, bytes.ReplaceAll(content, []byte(test.old),
					[]byte(test.with)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if printed, ok := validate(t, program, dir); ok || !strings.Contains(printed, test.want) {
				t.Errorf("accepted: %t, want %q in\n%s", ok, test.want, printed)
			}
		})
	}
}

// csvOf contains the fields of a ClusterServiceVersion that tests read.
type csvOf struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Replaces string
		Install  struct {
			Spec struct {
				Permissions []struct {
					ServiceAccountName string
					Rules              []map[string]any
				}
				ClusterPermissions []any
			}
		}
	}
}

func parse(t *testing.T, s *source) (parsed csvOf, content string) {
	t.Helper()
	files, err := s.bundle()
	if err != nil {
		t.Fatal(err)
	}
	csv := files["manifests/heartwood.clusterserviceversion.yaml"]
	if err := yaml.Unmarshal(csv, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed, string(csv)
}

// TestPermissionsAreThoseOfTheChart checks that the operator has each rule of its generated role.
func TestPermissionsAreThoseOfTheChart(t *testing.T) {
	parsed, _ := parse(t, newSource(t))
	granted := parsed.Spec.Install.Spec.Permissions
	if len(granted) != 1 || granted[0].ServiceAccountName != "heartwood-operator" ||
		len(parsed.Spec.Install.Spec.ClusterPermissions) != 0 {
		t.Fatalf("permissions %+v", parsed.Spec.Install.Spec)
	}
	content, err := os.ReadFile(root + "/config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role struct{ Rules []map[string]any }
	if err := yaml.Unmarshal(content, &role); err != nil || len(role.Rules) == 0 {
		t.Fatalf("%d rules, %v", len(role.Rules), err)
	}
	text := func(rule map[string]any) string {
		content, err := json.Marshal(rule)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	has := map[string]bool{}
	for _, rule := range granted[0].Rules {
		has[text(rule)] = true
	}
	for _, rule := range role.Rules {
		if !has[text(rule)] {
			t.Errorf("the bundle lacks the rule %s", text(rule))
		}
	}
}

// TestExamplesAreValidResources validates the examples with the API server's code and the CRDs.
func TestExamplesAreValidResources(t *testing.T) {
	parsed, _ := parse(t, newSource(t))
	var examples []any
	if err := json.Unmarshal([]byte(parsed.Metadata.Annotations["alm-examples"]),
		&examples); err != nil {
		t.Fatal(err)
	}
	kinds, dir := map[string]bool{}, t.TempDir()
	var documents bytes.Buffer
	for _, example := range examples {
		kinds[example.(map[string]any)["kind"].(string)] = true
		content, err := yaml.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		documents.WriteString("---\n" + string(content))
	}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got,
		[]string{"LogCluster", "LogUser", "Topic"}) {
		t.Errorf("examples of %v", got)
	}
	if err := os.WriteFile(dir+"/examples.yaml", documents.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Load([]string{dir}); err != nil {
		t.Error(err)
	}
}

// TestNothingOfHelmRemains checks that the bundle has no label of Helm and no namespace, which OLM
// chooses, and that it uses the image by its digest only.
func TestNothingOfHelmRemains(t *testing.T) {
	files, err := newSource(t).bundle()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		for _, forbidden := range []string{"helm.sh/", "managed-by", "heartwood-system",
			"heartwood.dev/heartwood:"} {
			if strings.Contains(string(content), forbidden) {
				t.Errorf("%s contains %q", name, forbidden)
			}
		}
	}
}

// TestPoliciesAreBesideTheBundle checks that policies.yaml has every admission policy of the chart
// and its binding, and the bundle none.
func TestPoliciesAreBesideTheBundle(t *testing.T) {
	s := newSource(t)
	var want, got []string
	files, err := filepath.Glob(root + "/config/admission/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects {
			want = append(want, objects[i].GetKind()+" "+objects[i].GetName())
		}
	}
	policies, err := readObjects(filepath.Dir(written(t, s)) + "/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range policies {
		got = append(got, policies[i].GetKind()+" "+policies[i].GetName())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("policies %v, want %v", got, want)
	}
	for name := range s.manifests() {
		if strings.Contains(name, "policy") {
			t.Errorf("the bundle contains %s, which OLM refuses", name)
		}
	}
}

// TestBundlesAreEqual checks that two bundles of one source are equal, and that a bundle names the
// release that it replaces.
func TestBundlesAreEqual(t *testing.T) {
	s := newSource(t)
	first, err := s.bundle()
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.bundle()
	if err != nil || !maps.EqualFunc(first, second, bytes.Equal) {
		t.Errorf("two bundles differ: %v", err)
	}
	s.version, s.replaces = "v1.2.0", "v1.1.0"
	if parsed, _ := parse(t, s); parsed.Spec.Replaces != "heartwood.v1.1.0" ||
		parsed.Metadata.Name != "heartwood.v1.2.0" || s.channel() != "stable" {
		t.Errorf("%s replaces %q in channel %s", parsed.Metadata.Name, parsed.Spec.Replaces,
			s.channel())
	}
}
