package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindFilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "c.json", ".hidden.yaml", "notes.txt",
		"d.yaml~", "sub/e.yaml", "..data_1/f.yaml"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// f.yaml is a symbolic link to a file through another link, as in a ConfigMap volume. lost.yaml is
	// a dangling link.
	if err := errors.Join(os.Symlink("..data_1", filepath.Join(dir, "..data")),
		os.Symlink("..data/f.yaml", filepath.Join(dir, "f.yaml")),
		os.Symlink("nowhere", filepath.Join(dir, "lost.yaml"))); err != nil {
		t.Fatal(err)
	}
	files, err := find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i], _ = filepath.Rel(dir, files[i])
	}
	if diff := cmp.Diff([]string{"a.yml", "b.yaml", "c.json", "f.yaml"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestMissingManifests(t *testing.T) {
	if _, err := find(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got error %v, want ErrNotExist", err)
	}
	if _, err := find(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "no manifests in directory") {
		t.Errorf("empty directory: got error %v", err)
	}
	if _, err := find(""); err == nil || err.Error() != "empty manifest path" {
		t.Errorf("empty path: got error %v", err)
	}
	_, err := Load([]string{"no/such/path", "nor/this"})
	if got := faults(err); len(got) != 2 || !strings.Contains(got[0], "no/such/path") {
		t.Errorf("got faults %v, want one per path", got)
	}
}

// TestYAMLErrorsNameTheLine checks that errors contain the line number in the file, not in the
// document.
func TestYAMLErrorsNameTheLine(t *testing.T) {
	good := topicHead + "metadata: {name: a}\nspec: {cluster: c}\n" // 4 lines
	for _, test := range []struct{ text, want string }{
		{good + "---\n" + "a: b\n  c: d\n",
			"yaml: line 7: mapping values are not allowed in this context"},
		{good + "---\n" + "a: 1\nb: 2\na: 3\nb: 4\n",
			`yaml: unmarshal errors: line 8: key "a" already set in map; line 9: key "b" already set in map`},
		{good + "--- # next\n" + "- a\n", "line 6: document is not an object"},
		{good + "---\n" + "kind: Topic\n",
			"apiVersion: Required value: missing in the object at line 6"},
		{"{\"apiVersion\": ", "line 1"},
		{" \n", "empty file"},
		{"a: &a [*a]\n", "anchor 'a' value contains itself"},
	} {
		_, err := Load([]string{write(t, "bad.yaml", test.text)})
		got := faults(err)
		if len(got) != 1 || !strings.Contains(got[0], test.want) {
			t.Errorf("%q:\n got %q\nwant %q", test.text, got, test.want)
		}
	}
}

// TestOtherKindsAreSkipped checks that objects of other kinds are skipped, and that v1 Lists are
// expanded, as by kubectl.
func TestOtherKindsAreSkipped(t *testing.T) {
	set, err := Load([]string{write(t, "mixed.yaml", `# only a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
---
apiVersion: v1
kind: List
items:
- {apiVersion: heartwood.dev/v1alpha1, kind: Topic, metadata: {name: in-list}, spec: {cluster: c}}
- {apiVersion: apps/v1, kind: Deployment}
---
apiVersion: heartwood.dev/v1alpha1
kind: PartitionSet
---
`), write(t, "t.json", `{"apiVersion": "heartwood.dev/v1alpha1", "kind": "Topic", "metadata": {"name": "json"}, "spec": {"cluster": "c"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, topic := range set.Topics {
		names = append(names, topic.Name)
	}
	if diff := cmp.Diff([]string{"in-list", "json"}, names); diff != "" || set.Cluster != nil {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
}

func TestOversizedFileIsRejected(t *testing.T) {
	file := write(t, "huge.yaml", "")
	if err := os.Truncate(file, fileBytesMax+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{file}); err == nil ||
		!strings.Contains(err.Error(), "more than 16777216") {
		t.Errorf("got error %v", err)
	}
}

// FuzzParse checks that Load accepts or rejects any file without a panic, and that accepted topics
// are valid.
func FuzzParse(f *testing.F) {
	f.Add([]byte(topicHead + "metadata: {name: a}\nspec: {cluster: c}\n---\n"))
	f.Add(
		[]byte(
			topicHead + "metadata: {name: a, labels: 3}\nspec: {cluster: c, partitions: 1e3, segment: {size: 5}}\n",
		),
	)
	f.Add(
		[]byte(
			"apiVersion: heartwood.dev/v1alpha1\nkind: LogCluster\nmetadata:\nspec: {resources: {limits: {cpu: []}}}\n",
		),
	)
	f.Add([]byte("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{},3]}"))
	f.Add([]byte("--- x\n---\n- \n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := Load([]string{file})
		if (set == nil) != (err != nil) {
			t.Fatalf("got set %v and error %v, want exactly one of them", set, err)
		}
		if err != nil && len(faults(err)) == 0 {
			t.Fatalf("got an error without an *Error: %v", err)
		}
		if set != nil {
			for _, topic := range set.Topics {
				if topic.Spec.Partitions < 0 || topic.Spec.Cluster == "" || topic.Name == "" {
					t.Fatalf("an invalid topic was accepted: %+v", topic.Spec)
				}
			}
		}
	})
}
