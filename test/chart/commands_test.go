package chart

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// inPod matches a command in a page that runs in a container: kubectl exec POD -- COMMAND.
var inPod = regexp.MustCompile(`kubectl [^\n]*exec [^\n]*? -- ([^\s]+)(?: ([a-z-]+))?`)

// TestCommandsInPodsExist checks the commands that pages run in containers. The image contains only
// the program heartwood, so the pages must run no other program there, and only subcommands that
// exist.
func TestCommandsInPodsExist(t *testing.T) {
	subcommands := map[string]bool{}
	var sources []string
	for _, directory := range []string{"cmd/heartwood/", "internal/cli/direct/"} {
		files, err := filepath.Glob(root + directory + "*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of commands in %s: %v", directory, err)
		}
		sources = append(sources, files...)
	}
	use := regexp.MustCompile(`Use:\s+"([a-z-]+)`)
	for _, source := range sources {
		content := readFile(t, strings.TrimPrefix(source, root))
		for _, name := range use.FindAllStringSubmatch(content, -1) {
			subcommands[name[1]] = true
		}
	}
	found := 0
	for _, pattern := range []string{"docs/*.md", "docs/use/*.md", "docs/operate/*.md",
		"docs/operate/runbooks/*.md", "docs/internals/*.md", "README.md"} {
		pages, err := filepath.Glob(root + pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		for _, page := range pages {
			content := readFile(t, strings.TrimPrefix(page, root))
			for _, command := range inPod.FindAllStringSubmatch(content, -1) {
				found++
				if command[1] != "heartwood" || !subcommands[command[2]] {
					t.Errorf("%s: the image cannot run %q", page, command[0])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d commands found: the expression does not match them any more", found)
	}
	if !strings.Contains(readFile(t, "Dockerfile"), "ENV PATH=/\n") {
		t.Error("the image of the Dockerfile does not contain heartwood in its PATH")
	}
}
