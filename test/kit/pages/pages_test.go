package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const page = "Text with `kubectl get\n  pods`, and `kubectl drain`.\n\n" +
	"```\nrate(heartwood_x[5m]) > 0\n```\n\n" +
	"```sh\n# a comment\nkubectl -n NAMESPACE logs POD | grep -e WARN   # of a broker\n" +
	"make release \\\n  VERSION=v1\n```\n" +
	"  ```console\n  $ kubectl get topics -n OPERATOR-NAMESPACE\n  NAME\n  ```\n" +
	"| reason | see `helm list \\| grep x` |\n|---|---|\n| `Ready` | `heartwood log verify D-POD` |\n"

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
		"kubectl get topics -n op;kubectl get pods;helm list | grep x;heartwood log verify D-b-0"
	if strings.Join(texts, ";") != want {
		t.Fatalf("got %q, want %q", texts, want)
	}
	lines := []int{10, 11, 15, 1, 18, 20}
	for index, c := range got {
		if c.Line != lines[index] || c.Inline != (index > 2) {
			t.Errorf("%s: want line %d, inline: %t", c, lines[index], index > 2)
		}
	}
}

// TestCommandsInSentencesFollowOnce checks that a command in a sentence comes after all blocks, and
// is omitted if a block contains it.
func TestCommandsInSentencesFollowOnce(t *testing.T) {
	text := "Run `kubectl get a`, `kubectl get b`.\n\n```sh\nkubectl get b   # a comment\n```\n"
	got, err := All(fstest.MapFS{"docs/operate/runbooks/HeartwoodVolumeFull.md": {Data: []byte(text)},
		"docs/operate/pods.md": {Data: []byte("`kubectl get a`\n\n```sh\nkubectl get c\n```\n")},
		"README.md":            {Data: []byte("`kubectl get d`\n")}})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range got {
		texts = append(texts, c.bare())
	}
	want := []string{"kubectl get b", "kubectl get c", "kubectl get a"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

// TestProgramOfBrokersIsRunInAPod checks that pages run the program heartwood only in a pod. Except
// for heartwood dev, a reader has only the kubectl plugin.
func TestProgramOfBrokersIsRunInAPod(t *testing.T) {
	for text, want := range map[string]bool{"`heartwood partitions T`": false,
		"`kubectl exec POD -- heartwood partitions TOPIC`": true, "`heartwood dev --pprof`": true} {
		if _, err := All(fstest.MapFS{"docs/operate/pods.md": {Data: []byte(text)}}); want !=
			(err == nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestUntestedCommandsAreWholeOrABeginning checks that a reason for one command does not cover
// longer commands.
func TestUntestedCommandsAreWholeOrABeginning(t *testing.T) {
	for text, want := range map[string]bool{
		"kubectl heartwood retained remove tickets":          true,
		"kubectl heartwood retained remove tickets   # help": true,
		"kubectl heartwood retained remove tickets --wait":   false,
		"kubectl heartwood accept-loss orders/1":             true,
		"kubectl heartwood":                                  false,
	} {
		if _, _, untested := (Command{Text: text}).Reason(); untested != want {
			t.Errorf("%q: untested: %t, want %t", text, untested, want)
		}
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
		"run `kubectl get pod PODNAME`":            "placeholder PODNAME is unknown",
		"| a | `kubectl get pod |\n| `b` | c |":    "a code span is not closed",
		"- `kubectl get pod x\n\n- y`":             "a code span is not closed",
	} {
		_, err := Extract("p.md", content)
		switch {
		case want == "" && strings.Contains(content, " NS "): // two letters are not a placeholder
		case want == "" && err != nil, want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
	}
}

// TestEveryPageIsClassified checks that test/e2e can run every command in the pages for operators,
// or that Untested contains the command with the reason.
func TestEveryPageIsClassified(t *testing.T) {
	commands, err := All(os.DirFS(filepath.Join("..", "..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) < 50 {
		t.Errorf("only %d commands", len(commands))
	}
	inline, unused := 0, map[string]bool{}
	for text := range Untested {
		unused[text] = true
	}
	for _, c := range commands {
		if text, _, ok := c.Reason(); ok {
			delete(unused, text)
		} else if c.Inline {
			inline++
		}
	}
	if inline < 20 {
		t.Errorf("only %d commands in sentences are run", inline)
	}
	for text := range unused {
		t.Errorf("no page contains %q", text)
	}
}

// TestMentionsAreProgramsAndCommands checks that each mention has no argument or flag, and that a
// page contains it.
func TestMentionsAreProgramsAndCommands(t *testing.T) {
	text := ""
	for _, page := range documents(t, "docs/operate/runbooks/*.md", "docs/operate/*.md") {
		text += page
	}
	for _, mention := range Mentions {
		if !regexp.MustCompile(`^[a-z]+( [a-z-]*[a-z])+$`).MatchString(mention) ||
			strings.Contains(mention, " -") {
			t.Errorf("%q has arguments", mention)
		}
		if !strings.Contains(text, "`"+mention+"`") {
			t.Errorf("no page contains %q", mention)
		}
	}
}
