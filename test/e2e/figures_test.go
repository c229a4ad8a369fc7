//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// figuresPage is the page that a whole run writes.
const figuresPage = "docs/bench/e2e.md"

// figures collects the result of each step and what it measured.
type figures struct {
	mu    sync.Mutex
	steps []*figuresOfStep
}

type figuresOfStep struct {
	name, result string
	took         time.Duration
	lines        []string
}

// begin adds a step. Figures belong to it until the next one begins.
func (f *figures) begin(name string) *figuresOfStep {
	f.mu.Lock()
	defer f.mu.Unlock()
	step := &figuresOfStep{name: name}
	f.steps = append(f.steps, step)
	return step
}

func (f *figures) add(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step := f.steps[len(f.steps)-1]
	step.lines = append(step.lines, line)
}

// measured logs a figure and keeps it for the page.
func (e *environment) measured(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	if _, part, found := strings.Cut(strings.TrimPrefix(t.Name(), testName("")), "/"); found {
		line = strings.ReplaceAll(part, "_", " ") + ": " + line
	}
	t.Log("MEASURED " + line)
	e.figures.add(line)
}

// page returns the page. versions describes what was measured, a line each.
func (f *figures) page(versions []string) string {
	var page strings.Builder
	page.WriteString("# Figures of the last end-to-end run\n\nA whole run of `make e2e` writes " +
		"this page. The nodes, the brokers and the\nclient share the CPUs of one machine, so the " +
		"figures show orders of magnitude.\n\n")
	for _, line := range versions {
		fmt.Fprintf(&page, "- %s\n", line)
	}
	page.WriteString("\n| Step | Result | Seconds | Measured |\n|---|---|---|---|\n")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, step := range f.steps {
		fmt.Fprintf(&page, "| %s | %s | %.0f | %s |\n", step.name, step.result, step.took.Seconds(),
			strings.ReplaceAll(strings.Join(step.lines, "<br>"), "|", `\|`))
	}
	return page.String()
}

// record runs a step and adds its result and duration. A failed step does not end the run.
func (e *environment) record(t *testing.T, name string, run func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		step, began := e.figures.begin(name), time.Now()
		defer func() {
			step.took, step.result = time.Since(began), "pass"
			switch {
			case t.Failed():
				step.result = "**fail**"
			case t.Skipped():
				step.result = "skip"
			}
		}()
		e.skips.watch(run)(t)
	})
}

// writeFigures writes the page if all steps were selected. A run of single steps keeps the page.
func (e *environment) writeFigures(t *testing.T, steps int) {
	if len(e.figures.steps) != steps {
		t.Logf("%d of %d steps were selected: %s is kept", len(e.figures.steps), steps, figuresPage)
		return
	}
	if err := os.WriteFile(filepath.Join("../..", figuresPage),
		[]byte(e.figures.page(e.versions(t))), 0o644); err != nil {
		t.Error(err)
	}
}

// versions describes what a run measures.
func (e *environment) versions(t *testing.T) []string {
	t.Helper()
	server, err := e.set.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	commit, err := command(t.Context(), "", "git", "describe", "--always", "--dirty", "--exclude=*")
	if err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := e.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	return []string{"Date: " + time.Now().UTC().Format(time.DateOnly),
		"Commit: " + strings.TrimSpace(commit), "Kubernetes: " + server.GitVersion,
		fmt.Sprintf("Nodes: %d", len(nodes.Items))}
}

// TestFiguresOfSteps checks the page: each figure stands in the row of its step.
func TestFiguresOfSteps(t *testing.T) {
	f := &figures{}
	*f.begin("first") = figuresOfStep{name: "first", result: "pass", took: 2 * time.Second}
	f.add("3 ms")
	f.add("a|b")
	*f.begin("second") = figuresOfStep{name: "second", result: "**fail**"}
	page := f.page([]string{"Kubernetes: v1"})
	for _, want := range []string{"\n- Kubernetes: v1\n", "\n| first | pass | 2 | 3 ms<br>a\\|b |\n",
		"\n| second | **fail** | 0 |  |\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
}
