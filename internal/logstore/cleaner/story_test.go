package cleaner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Stories of the cleaner, one file each, for readers: testdata/clean/README.md has the words.
// -update writes what is printed anew.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/clean/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(content))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(content) {
				t.Errorf("%s says otherwise (run with -update if that is meant); got\n%s", file,
					got)
			}
		})
	}
}

// paragraph is a part of a story: what is said and done, and what that prints, behind a line of
// hyphens.
type paragraph struct {
	lines   []string // as they stand in the file, comments too
	printed string
}

const storyRule = "----"

// paragraphs cuts a story at its empty lines.
func paragraphs(content string) (all []paragraph) {
	for text := range strings.SplitSeq(strings.TrimSpace(content), "\n\n") {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			if line == storyRule {
				lines = lines[:i]
				break
			}
		}
		all = append(all, paragraph{lines: lines})
	}
	return all
}

// tell plays a story and returns it with what it prints now.
func tell(t *testing.T, content string) string {
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
	output, err := play(t, script)
	if err != nil {
		t.Fatalf("%v, behind\n%s", err, strings.ReplaceAll(output, paragraphEnd, ""))
	}
	parts := strings.Split(output, paragraphEnd)
	if len(parts) != len(all)+1 {
		t.Fatalf("%d paragraphs were played, of %d", len(parts)-1, len(all))
	}
	var told []string
	for i, p := range all {
		p.printed = parts[i]
		told = append(told, p.String())
	}
	return strings.Join(told, "\n")
}

// paragraphEnd is what the script's word "paragraph" prints.
const paragraphEnd = "\x00"

func (p paragraph) String() string {
	text := strings.Join(p.lines, "\n") + "\n"
	if p.printed != "" {
		text += storyRule + "\n" + p.printed
	}
	return text
}

func TestStoryThatGoesOtherwiseFails(t *testing.T) {
	for _, c := range []struct{ story, want string }{
		{"put a=1\nlog\n----\nactive  0: 0:a=2\n", "active  0: 0:a=1"},
		{"# b is a tombstone\nput a=1 b\n\nlog\n", "active  0: 0:a=1 1:b"},
	} {
		if got := tell(t, c.story); !strings.Contains(got, c.want) || got == c.story {
			t.Errorf("%q is told as %q", c.story, got)
		}
	}
	if got := fmt.Sprint(len(paragraphs("a\nb\n----\nc\n\nd\n"))); got != "2" {
		t.Errorf("%s paragraphs", got)
	}
}
