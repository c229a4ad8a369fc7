package smoke

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/pages"
	"heartwood.dev/heartwood/test/kit/process"
)

// TestCommandsOfTry runs the commands of docs/use/try.md, one after the other. It uses other ports
// and another data directory, and runs bench for a shorter time. If kcat is not installed, the test
// itself produces the records.
func TestCommandsOfTry(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/use/try.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pages.Extract("docs/use/try.md", string(content))
	if err != nil {
		t.Fatal(err)
	}
	s := process.NewSetup(t, 3)
	r := try{t: t, setup: s}
	for _, c := range all {
		if !c.Inline && !strings.HasPrefix(c.Text, "make build") {
			r.run(c.Text)
		}
	}
	want := []string{"dev", "bench", "printf", "get", "clean", "get", "get", "topics", "curl", "curl",
		"log"}
	if !slices.Equal(r.ran, want) {
		t.Errorf("ran %v, want %v", r.ran, want)
	}
}

// try runs the commands of docs/use/try.md.
type try struct {
	t       *testing.T
	setup   process.Setup
	ran     []string
	cleaned bool
}

func (r *try) run(text string) {
	t, s := r.t, r.setup
	t.Helper()
	text, _, _ = strings.Cut(text, "  #")
	text = strings.NewReplacer("127.0.0.1:9092", s.Listen, "127.0.0.1:9644", s.HTTP, "heartwood-data",
		s.DataDir, "config/samples", filepath.Join("..", "..", "config", "samples")).Replace(text)
	words := strings.Fields(text)
	if words[0] != "bin/heartwood" {
		r.ran = append(r.ran, words[0])
		r.shell(text)
		return
	}
	r.ran = append(r.ran, words[1])
	args, _, _ := strings.Cut(strings.Join(words[1:], " "), " | ")
	words = strings.Fields(args)
	switch words[0] {
	case "dev":
		process.Start(t, append(words, "--listen", s.Listen, "--http", s.HTTP, "--data-dir",
			s.DataDir)...).Ready(t)
		return
	case "bench":
		words = append(words, "--bootstrap", s.Listen, "--duration", "3s")
	case "get", "clean", "topics":
		words = append(words, "--address", s.HTTP)
	}
	code, out, errOut := heartwood(t, words...)
	if code != 0 {
		t.Fatalf("%v: exit code %d: %s", words, code, errOut)
	}
	r.check(words, out)
}

// check checks a command's output.
func (r *try) check(words []string, out string) {
	history := slices.Contains(words, "--history")
	switch {
	case words[0] == "clean":
		r.cleaned = true
		checkSample(r.t, out)
	case words[0] == "get" && history && r.cleaned && strings.Contains(out, "printer on fire"),
		words[0] == "get" && history && !strings.Contains(out, "fire out"),
		words[0] == "get" && !history && out != "fire out":
		r.t.Errorf("%v printed %s", words, out)
	}
}

// numbers matches the numbers in a line, with their units.
var numbers = regexp.MustCompile(`[0-9][0-9.]*( ([KMG]i)?B)?`)

// checkSample compares the sample output of `heartwood clean tickets --wait` in
// docs/use/cleaning.md with the real output, line by line and without the numbers.
func checkSample(t *testing.T, out string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/use/cleaning.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, found := strings.Cut(string(page), "$ heartwood clean tickets --wait\n")
	sample, _, closed := strings.Cut(sample, "\n```")
	if !found || !closed {
		t.Fatal("docs/use/cleaning.md has no sample of heartwood clean")
	}
	printed := strings.Split(numbers.ReplaceAllString(out, "#"), "\n")
	for line := range strings.SplitSeq(sample, "\n") {
		if !slices.Contains(printed, numbers.ReplaceAllString(line, "#")) {
			t.Errorf("docs/use/cleaning.md has the line %q; heartwood clean printed\n%s", line, out)
		}
	}
}

// shell runs a command in bash.
func (r *try) shell(text string) {
	r.t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil && strings.Contains(text, "kcat") {
		r.produce(text)
		return
	}
	out, err := exec.CommandContext(r.t.Context(), "bash", "-o", "pipefail", "-c",
		text).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v: %s", text, err, out)
	}
}

// produce produces the lines KEY:VALUE of a printf command to topic tickets.
func (r *try) produce(text string) {
	r.t.Helper()
	lines := strings.Split(text, "'")[1]
	client := producer(r.t, []string{r.setup.Listen})
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, `\n`), `\n`) {
		key, value, _ := strings.Cut(line, ":")
		if err := client.ProduceSync(process.WithDeadline(r.t), &kgo.Record{Topic: "tickets",
			Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
}
