package convert

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGoldenFiles checks the conversion of the manifests in testdata. A second conversion of the
// same objects must be equal, because remarks come from maps.
func TestGoldenFiles(t *testing.T) {
	for _, name := range []string{"cluster", "old", "topics", "users"} {
		t.Run(name, func(t *testing.T) {
			got := converted(t, objects(t, name))
			if again := converted(t, objects(t, name)); again != got {
				t.Errorf("a second conversion differs:\n%s", again)
			}
			file := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestResultsLoadTogether checks that `heartwood dev` accepts the results of a cluster, its topics
// and its users in one directory.
func TestResultsLoadTogether(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cluster", "topics", "users"} {
		var kept []map[string]any
		for _, content := range objects(t, name) {
			meta := content["metadata"].(map[string]any)
			meta["namespace"] = "records"
			if meta["name"] != "homeless" {
				kept = append(kept, content)
			}
		}
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(converted(t, kept)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := manifest.Load([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if set.Cluster == nil || len(set.Topics) != 3 || len(set.Users) != 4 {
		t.Errorf("got LogCluster %v, %d Topics, %d LogUsers", set.Cluster != nil, len(set.Topics),
			len(set.Users))
	}
}

// TestNoFieldIsDroppedSilently adds an unknown field to each object in the specs. A new remark must
// appear, unless a remark names an object around the place.
func TestNoFieldIsDroppedSilently(t *testing.T) {
	checked := 0
	for _, name := range []string{"cluster", "old", "topics", "users"} {
		before := remarks(t, objects(t, name))
		for index := range objects(t, name) {
			for _, path := range places(objects(t, name)[index]) {
				all := objects(t, name)
				place(all[index], path)["surprise"] = "unknown"
				object := fmt.Sprintf("%v/%v", all[index]["kind"], place(all[index], "metadata")["name"])
				if !reported(before, remarks(t, all), object, path) {
					t.Errorf("%s: an unknown field in %s %s was dropped", name, object, path)
				}
				checked++
			}
		}
	}
	if checked < 60 {
		t.Errorf("checked %d places, want at least 60", checked)
	}
}

// general contains the paths of remarks that describe the whole conversion, and not the fields
// below these paths.
var general = []string{"spec.kafka", "spec.kafka.listeners"}

// reported reports whether a conversion has a remark that it did not have before, or a remark about
// the place or an object around it.
func reported(before, after []Remark, object, path string) bool {
	for _, remark := range after {
		if slices.Contains(general, remark.Path) && slices.Contains(before, remark) {
			continue
		}
		around := strings.HasPrefix(object+" "+path, remark.Object+" "+remark.Path) ||
			strings.HasPrefix(object+" "+path, remark.Path) && strings.HasPrefix(remark.Path, object)
		if around && remark.Path != "" || remark.Path == "" && remark.Object == object ||
			!slices.Contains(before, remark) {
			return true
		}
	}
	return false
}

// TestIncompleteDenialConvertsNoRule checks that a rule that denies is never lost alone, because
// the user would be allowed more than before.
func TestIncompleteDenialConvertsNoRule(t *testing.T) {
	all := objects(t, "users")[:1]
	rules := place(all[0], "spec.authorization")["acls"].([]any)
	rules[1].(map[string]any)["condition"] = "unknown"
	documents, err := Strimzi(all)
	if err != nil {
		t.Fatal(err)
	}
	user := documents[0].Object.(*v1alpha1.LogUser)
	if len(user.Spec.ACLs) != 0 || len(Lost(documents)) == 0 {
		t.Errorf("got rules %v, %d losses", user.Spec.ACLs, len(Lost(documents)))
	}
}

// TestListenerWithoutItsSourcesIsLeftOut checks that a listener is not converted without its
// NetworkPolicy, because it would admit all clients.
func TestListenerWithoutItsSourcesIsLeftOut(t *testing.T) {
	all := objects(t, "old")[:1]
	kafka := place(all[0], "spec.kafka")
	block := map[string]any{"cidr": "10.0.0.0/8", "except": []any{"10.1.0.0/16"}}
	kafka["listeners"].([]any)[0].(map[string]any)["networkPolicyPeers"] = []any{
		map[string]any{"ipBlock": block}}
	documents, err := Strimzi(all)
	if err != nil {
		t.Fatal(err)
	}
	if got := documents[0].Object.(*v1alpha1.LogCluster); !closed(got) {
		t.Errorf("got listeners %+v", got.Spec.Listeners)
	}
}

// TestInvalidResultsAreErrors checks that a name that Heartwood does not accept is an error with
// the message of the API server.
func TestInvalidResultsAreErrors(t *testing.T) {
	all := objects(t, "old")[:1]
	place(all[0], "metadata")["name"] = strings.Repeat("x", 41)
	_, err := Strimzi(all)
	if err == nil || !strings.Contains(err.Error(), "metadata.name must begin with a letter") {
		t.Errorf("got error %v", err)
	}
}

// objects returns the objects in a file of testdata.
func objects(t *testing.T, name string) []map[string]any {
	t.Helper()
	file := filepath.Join("testdata", name+".yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, faults := manifest.Objects(file, content)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return all
}

// converted returns the conversion as YAML.
func converted(t *testing.T, all []map[string]any) string {
	t.Helper()
	documents, err := Strimzi(all)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, documents); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func remarks(t *testing.T, all []map[string]any) (found []Remark) {
	t.Helper()
	documents, err := Strimzi(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		found = append(found, document.Remarks...)
	}
	return found
}

// places returns the paths of all objects in a spec, except objects with keys of the user's choice,
// and the affinity, which is taken over as a whole.
func places(content map[string]any) (paths []string) {
	var walk func(value any, path string)
	walk = func(value any, path string) {
		switch value := value.(type) {
		case map[string]any:
			paths = append(paths, path)
			for name, inner := range value {
				if !slices.Contains([]string{"matchLabels", "labels", "annotations", "affinity",
					"requests", "limits"}, name) {
					walk(inner, path+"."+name)
				}
			}
		case []any:
			for i, inner := range value {
				walk(inner, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	walk(content["spec"], "spec")
	slices.Sort(paths)
	return paths
}

// place returns the object at a path of places.
func place(content map[string]any, path string) map[string]any {
	var value any = content
	for step := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		if index, ok := strings.CutPrefix(step, "["); ok {
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil {
				panic(err)
			}
			value = value.([]any)[i]
			continue
		}
		value = value.(map[string]any)[step]
	}
	return value.(map[string]any)
}
