package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const page = "Text with `kubectl get pods`.\n\n" +
	"```\nrate(heartwood_x[5m]) > 0\n```\n\n" +
	"```sh\n# a comment\nkubectl -n NAMESPACE logs POD | grep -e WARN   # of a broker\n" +
	"make release \\\n  VERSION=v1\n```\n" +
	"  ```console\n  $ kubectl get topics -n OPERATOR-NAMESPACE\n  NAME\n  ```\n"

func TestCommandsAreExtracted(t *testing.T) {
	got, err := Extract("p.md", page)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range got {
		texts = append(texts, c.Substitute(map[string]string{"NAMESPACE": "logs", "POD": "b-0",
			"OPERATOR-NAMESPACE": "op"}))
	}
	want := "kubectl -n logs logs b-0 | grep -e WARN   # of a broker;make release VERSION=v1;" +
		"kubectl get topics -n op"
	if strings.Join(texts, ";") != want || got[0].Line != 9 || got[2].Line != 14 {
		t.Errorf("got %q in lines %d and %d, want %q", texts, got[0].Line, got[2].Line, want)
	}
}

func TestUnknownCommandsAreErrors(t *testing.T) {
	for content, want := range map[string]string{
		"```bash\nls\n```":                         `unknown language "bash"`,
		"```sh\nrm -rf /\n```":                     `program "rm" is unknown`,
		"```sh\nkubectl get pod PODNAME\n```":      "placeholder PODNAME is unknown",
		"```sh\nkubectl -n NS get pod POD\n```":    "",
		"```\nkubectl get pods\n```":               `a command in a block of language ""`,
		"```yaml\nkubectl get pods\n```":           `a command in a block of language "yaml"`,
		"```sh\nkubectl get pods":                  "is not closed",
		"```sh\nkubectl get topic WARN TOPIC\n```": "",
	} {
		_, err := Extract("p.md", content)
		switch {
		case want == "" && strings.Contains(content, " NS "): // two letters are no placeholder
		case want == "" && err != nil, want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
	}
}

// TestEveryPageIsClassified: every command of the pages for operators can be run by test/e2e, or is
// in Untested with the reason.
func TestEveryPageIsClassified(t *testing.T) {
	commands, err := All(os.DirFS(filepath.Join("..", "..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 50 {
		t.Errorf("only %d commands", len(commands))
	}
	unused := map[string]bool{}
	for text := range Untested {
		unused[text] = true
	}
	for _, c := range commands {
		if text, _, ok := c.Reason(); ok {
			delete(unused, text)
		}
	}
	for text := range unused {
		t.Errorf("no page contains %q", text)
	}
}
