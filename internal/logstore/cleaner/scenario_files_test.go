package cleaner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScenarios runs the scenario files in testdata/scenarios, which also document the cleaner by
// example. The README.md in that directory lists the commands. With -update the test writes the
// output into the files.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runFile(t, string(content))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(content) {
				t.Errorf("%s has another output (run with -update if that is intended); got\n%s",
					file, got)
			}
		})
	}
}

// paragraph is a part of a scenario file: comments and commands, a line of hyphens, and the
// commands' output.
type paragraph struct {
	lines  []string // comments and commands
	output string
}

const outputRule = "----"

// paragraphs splits a scenario at its empty lines.
func paragraphs(content string) (all []paragraph) {
	for text := range strings.SplitSeq(strings.TrimSpace(content), "\n\n") {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			if line == outputRule {
				lines = lines[:i]
				break
			}
		}
		all = append(all, paragraph{lines: lines})
	}
	return all
}

// runFile runs a scenario and returns it with its current output.
func runFile(t *testing.T, content string) string {
	t.Helper()
	all := paragraphs(content)
	var script []string
	for _, p := range all {
		for _, line := range p.lines {
			if !strings.HasPrefix(line, "#") {
				script = append(script, line)
			}
		}
		script = append(script, "paragraph")
	}
	output, err := runScript(t, script)
	if err != nil {
		t.Fatalf("%v, after\n%s", err, strings.ReplaceAll(output, paragraphEnd, ""))
	}
	parts := strings.Split(output, paragraphEnd)
	if len(parts) != len(all)+1 {
		t.Fatalf("%d of %d paragraphs were run", len(parts)-1, len(all))
	}
	var files []string
	for i, p := range all {
		p.output = parts[i]
		files = append(files, p.String())
	}
	return strings.Join(files, "\n")
}

// paragraphEnd is the output of the command "paragraph".
const paragraphEnd = "\x00"

func (p paragraph) String() string {
	text := strings.Join(p.lines, "\n") + "\n"
	if p.output != "" {
		text += outputRule + "\n" + p.output
	}
	return text
}

func TestScenarioDetectsOtherOutput(t *testing.T) {
	for _, c := range []struct{ scenario, want string }{
		{"put a=1\nlog\n----\nactive  0: 0:a=2\n", "active  0: 0:a=1"},
		{"# b is a tombstone\nput a=1 b\n\nlog\n", "active  0: 0:a=1 1:b"},
	} {
		if got := runFile(t, c.scenario); !strings.Contains(got, c.want) || got == c.scenario {
			t.Errorf("%q gives %q", c.scenario, got)
		}
	}
	if got := fmt.Sprint(len(paragraphs("a\nb\n----\nc\n\nd\n"))); got != "2" {
		t.Errorf("%s paragraphs", got)
	}
}
