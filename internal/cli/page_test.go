package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/help"
)

const (
	page      = "../../docs/operate/kubectl-heartwood.md"
	reference = "The text of `--help` of each command. Every command also has the flags of `kubectl heartwood`.\n"
)

// describe writes the help of a command and its subcommands as Markdown. Only the help of the root
// command contains the root command's flags.
func describe(t *testing.T, cmd *cobra.Command, out *bytes.Buffer) {
	t.Helper()
	var text bytes.Buffer
	cmd.SetOut(&text)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	body, _, _ := strings.Cut(text.String(), "\nGlobal Flags:\n")
	body, _, _ = strings.Cut(body, "\nUse \"kubectl heartwood")
	out.WriteString("### " + cmd.CommandPath() + "\n\n```text\n" + strings.TrimRight(body, "\n") +
		"\n```\n\n")
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			describe(t, sub, out)
		}
	}
}

// TestPageContainsTheHelp checks that the reference on the page equals the help of the commands.
// With -update it writes the reference.
func TestPageContainsTheHelp(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), reference)
	if !found {
		t.Fatalf("%s does not contain %q", page, reference)
	}
	var want bytes.Buffer
	root := Root()
	root.InitDefaultHelpCmd()
	describe(t, root, &want)
	text := strings.TrimRight(want.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(page, []byte(before+reference+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff("\n"+text, after); diff != "" {
		t.Errorf("%s differs from the help; go test -update writes it (-help +page):\n%s", page, diff)
	}
}

// TestHelpFitsTheScreen checks that no line of a help text is wider than Columns or shows an empty
// default.
func TestHelpFitsTheScreen(t *testing.T) {
	var text bytes.Buffer
	describe(t, Root(), &text)
	for line := range strings.Lines(text.String()) {
		if len(strings.TrimRight(line, "\n")) > help.Columns {
			t.Errorf("wider than %d columns: %s", help.Columns, line)
		}
		if strings.Contains(line, "(default )") {
			t.Errorf("an empty default: %s", line)
		}
	}
}

func TestIsPlugin(t *testing.T) {
	for program, want := range map[string]bool{
		"kubectl-heartwood": true, "/usr/bin/kubectl_heartwood": true,
		filepath.Join("bin", "kubectl-heartwood.exe"): true,
		"heartwood": false, "kubectl": false, "/kubectl-heartwood/heartwood": false,
	} {
		if IsPlugin(program) != want {
			t.Errorf("%s: %t, want %t", program, !want, want)
		}
	}
}
