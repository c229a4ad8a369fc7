package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heartwood.dev/heartwood/internal/cli"
	"heartwood.dev/heartwood/internal/cli/help"
)

func TestHelpFitsItsColumns(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line,
				"\n")); columns > help.Columns {
				t.Errorf("%s --help: line of %d columns: %s", cmd.CommandPath(), columns, line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(rootCommand())
}

// TestFlagHelpSaysWhatTheFlagDoes checks that a flag's description neither begins with the
// placeholder of the flag's value, as in "NUMBER of a partition", nor repeats it. The test reads
// all commands of both binaries.
func TestFlagHelpSaysWhatTheFlagDoes(t *testing.T) {
	seen := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		each := func(flag *pflag.Flag) {
			seen++
			if fault := repeats(flag); fault != "" {
				t.Errorf("%s --%s: the description %s: %s", cmd.CommandPath(), flag.Name, fault,
					help.Text(flag))
			}
		}
		cmd.PersistentFlags().VisitAll(each)
		cmd.LocalNonPersistentFlags().VisitAll(each)
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(rootCommand())
	check(cli.Root())
	if seen < 300 {
		t.Errorf("found %d flags, want at least 300", seen)
	}
}

// repeats describes how a flag's description repeats the placeholder. It returns "" if it does not.
func repeats(flag *pflag.Flag) string {
	placeholder, _ := pflag.UnquoteUsage(flag)
	text := help.Text(flag)
	switch {
	case strings.TrimSpace(text) == "":
		return "is empty"
	case placeholder == "" || placeholder != strings.ToUpper(placeholder): // no placeholder, or a type
		return ""
	case strings.HasPrefix(text, placeholder):
		return "begins with its placeholder"
	case strings.Contains(text, " "+placeholder):
		return "repeats its placeholder"
	}
	return ""
}

func TestRepeatedPlaceholderIsFound(t *testing.T) {
	for usage, want := range map[string]string{
		"`NUMBER` NUMBER of a partition": "begins with its placeholder",
		"connect by the CA in `FILE`":    "repeats its placeholder",
		"`HOST:PORT` ":                   "is empty",
		"`NUMBER` search this partition": "",
		"create `DIR` below $TMPDIR":     "repeats its placeholder",
		"`DIR` create it below $TMPDIR":  "",
	} {
		var set pflag.FlagSet
		set.String("flag", "", usage)
		if got := repeats(set.Lookup("flag")); got != want {
			t.Errorf("%s: got %q, want %q", usage, got, want)
		}
	}
}
