//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// figuresPage is the page that a run writes.
const figuresPage = "docs/internals/bench/results/e2e.md"

// figures collects the result and the measurements of each step.
type figures struct {
	mu    sync.Mutex
	steps []*figuresOfStep
}

type figuresOfStep struct {
	name, result string
	took         time.Duration
	lines        []string
}

// begin adds a step. Figures are added to this step until the next step begins.
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

// measured logs a figure and adds it to the page.
func (e *environment) measured(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	if _, part, found := strings.Cut(strings.TrimPrefix(t.Name(), testName("")), "/"); found {
		line = strings.ReplaceAll(part, "_", " ") + ": " + line
	}
	t.Log("MEASURED " + line)
	e.figures.add(line)
}

// figuresHead is the part of the page before its table.
const figuresHead = `# Figures of the last end-to-end run

` + "`make e2e`" + ` writes this page: each step that it runs replaces its row. The nodes, brokers and the
client share the CPUs of one machine, so the figures show orders of magnitude.

| Step | Result | Seconds | Version | Measured |
|---|---|---|---|---|
`

// page returns the page with rows from a previous page and rows of the steps that ran, in the order
// of all steps. version describes the measured software.
func (f *figures) page(previous, version string, names []string) string {
	rows := map[string]string{}
	for line := range strings.Lines(previous) {
		if cells := strings.SplitN(line, " | ", 2); len(cells) == 2 {
			rows[strings.TrimPrefix(cells[0], "| ")] = line
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, step := range f.steps {
		rows[step.name] = fmt.Sprintf("| %s | %s | %.0f | %s | %s |\n", step.name, step.result,
			step.took.Seconds(), version,
			strings.ReplaceAll(strings.Join(step.lines, "<br>"), "|", `\|`))
	}
	page := figuresHead
	for _, name := range names {
		page += rows[name]
	}
	return page
}

// record runs a step, and adds the step's result and duration. A failed step does not end the run.
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

// writeFigures writes the page. A step that was not selected keeps its row.
func (e *environment) writeFigures(t *testing.T, names []string) {
	file := filepath.FromSlash("../../" + figuresPage)
	previous, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	page := e.figures.page(string(previous), e.version(t), names)
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Error(err)
	}
}

// version describes the software that a run measures.
func (e *environment) version(t *testing.T) string {
	t.Helper()
	server, err := e.set.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	commit, err := command(t.Context(), "", "git", "describe", "--always", "--exclude=*")
	if err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := e.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %s, Kubernetes %s, %d nodes", time.Now().UTC().Format(time.DateOnly),
		strings.TrimSpace(commit), server.GitVersion, len(nodes.Items))
}

// TestFiguresOfSteps checks that a step that ran replaces its row in the page, while other steps
// keep their rows.
func TestFiguresOfSteps(t *testing.T) {
	f := &figures{}
	*f.begin("second") = figuresOfStep{name: "second", result: "pass", took: 2 * time.Second}
	f.add("3 ms")
	f.add("a|b")
	names := []string{"first", "second", "third"}
	page := f.page(figuresHead+"| first | **fail** | 9 | v1 | 8 ms |\n| second | pass | 1 | v1 |  |\n"+
		"| removed | pass | 1 | v1 |  |\n", "v2", names)
	want := figuresHead + "| first | **fail** | 9 | v1 | 8 ms |\n| second | pass | 2 | v2 | " +
		"3 ms<br>a\\|b |\n"
	if page != want {
		t.Errorf("got:\n%s\nwant:\n%s", page, want)
	}
	if again := (&figures{}).page(page, "v3", names); again != page {
		t.Errorf("a run without steps changes the page:\n%s", again)
	}
}
