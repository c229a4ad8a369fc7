package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heartwood.dev/heartwood/internal/cli"
)

const repository = "../.."

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=`)
	// placeholder matches a value that a reader replaces, such as PARTITION, NAME:PORT or $port.
	placeholder = regexp.MustCompile(`^[A-Z][A-Z:,-]+$|\$|\.\.\.`)
	// commandSpan matches a code span with a command, which can contain a line break.
	commandSpan = regexp.MustCompile("`((?:bin/|kubectl )?heartwood|make)\\s([^`]+)`")
)

// TestCommandsInDocumentsParse checks the commands in the code blocks and code spans of all
// documents: each subcommand and flag of heartwood and kubectl heartwood, and each target and
// variable of make, must exist. The commands do not run.
func TestCommandsInDocumentsParse(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, document := range documents(t) {
		for _, line := range shellLines(t, document) {
			for _, words := range simpleCommands(line) {
				program, args := programOf(words)
				if program == "" {
					continue
				}
				checked[program]++
				if err := checkCommand(program, args, string(makefile)); err != nil {
					t.Errorf("%s: %q: %v", document, line, err)
				}
			}
		}
	}
	for program, least := range map[string]int{"heartwood": 150, "kubectl": 80, "make": 60} {
		if checked[program] < least {
			t.Errorf("%d commands of %s found, want at least %d", checked[program], program, least)
		}
	}
}

func TestCommandsOfDocumentsThatAreRefused(t *testing.T) {
	const makefile = "build:\n\tgo build\nrelease:\n\thack/release.sh '$(VERSION)'\n"
	for line, want := range map[string]string{
		"heartwood topics --address 127.0.0.1:9644 | head": "",
		"bin/heartwood dev -f a.yaml & sleep 1":            "",
		"kubectl heartwood -n logs why tickets":            "",
		"kubectl heartwood move tickets/PARTITION 0":       "",
		"heartwood get tickets KEY --partition PARTITION":  "",
		"make build && make release VERSION=v0.1.0":        "",
		"kubectl exec POD -- heartwood topics":             "",
		"heartwood topic":                                  "unknown command",
		"kubectl heartwood clean tickets --wayt":           "unknown flag",
		"kubectl heartwood retained erase":                 "unknown command",
		"echo 'heartwood x' ; heartwood log dumb a":        "unknown command",
		"kubectl exec POD -- /heartwood cleen tickets":     "unknown command",
		"make biuld":                         "no target",
		"FLIPS=3 make release VERSIN=v0.1.0": "no variable",
	} {
		var got error
		for _, words := range simpleCommands(line) {
			if program, args := programOf(words); program != "" && got == nil {
				got = checkCommand(program, args, makefile)
			}
		}
		if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%q: error %v, want %q", line, got, want)
		}
	}
}

// checkCommand parses the arguments of a program.
func checkCommand(program string, args []string, makefile string) error {
	switch program {
	case "make":
		return checkMake(args, makefile)
	case "kubectl":
		return checkFlags(cli.Root(), args)
	}
	return checkFlags(rootCommand(), args)
}

// checkFlags finds the subcommand and parses its flags. A flag's value may be a placeholder.
func checkFlags(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for index, word := range rest { // parse a placeholder as the default
		if index > 0 && strings.HasPrefix(rest[index-1], "-") && placeholder.MatchString(word) {
			if flag := flagOf(cmd, rest[index-1]); flag != nil && flag.NoOptDefVal == "" {
				rest = slices.Clone(rest)
				rest[index-1], rest[index] = "--"+flag.Name+"="+flag.DefValue, ""
			}
		}
	}
	rest = slices.DeleteFunc(rest, func(word string) bool { return word == "" })
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch err := cmd.ParseFlags(rest); {
	case errors.As(err, &invalid) && invalid.GetValue() == "",
		errors.As(err, &missing): // a placeholder without a default, and a mention such as dev -f
		return nil
	case err != nil:
		return err
	}
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return nil
}

// flagOf returns the flag that a word names, or nil.
func flagOf(cmd *cobra.Command, word string) *pflag.Flag {
	_ = cmd.LocalFlags() // adds the persistent flags of the parents
	if long, ok := strings.CutPrefix(word, "--"); ok {
		return cmd.Flags().Lookup(long)
	}
	if len(word) == 2 {
		return cmd.Flags().ShorthandLookup(word[1:])
	}
	return nil
}

// checkMake checks the targets and the variables of a make command.
func checkMake(args []string, makefile string) error {
	targets := map[string]bool{}
	for _, found := range makeTarget.FindAllStringSubmatch(makefile, -1) {
		targets[found[1]] = true
	}
	for _, arg := range args {
		if set := assignment.FindStringSubmatch(arg); set != nil {
			if !regexp.MustCompile(`\b` + set[1] + `\b`).MatchString(makefile) {
				return fmt.Errorf("no variable %s", set[1])
			}
			continue
		}
		if !strings.HasPrefix(arg, "-") && !targets[arg] {
			return fmt.Errorf("no target %s", arg)
		}
	}
	return nil
}

// programOf returns the program of a command, if it is heartwood, the plugin of kubectl or make,
// and its arguments. For a command that runs in a pod, it returns the command in the pod.
func programOf(words []string) (program string, args []string) {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	switch {
	case len(words) > 1 && words[0] == "kubectl" && words[1] == "heartwood":
		return "kubectl", words[2:]
	case len(words) > 0 && words[0] == "kubectl" && slices.Contains(words, "--"):
		return programOf(words[slices.Index(words, "--")+1:])
	case len(words) > 0 && strings.TrimPrefix(filepath.Base(words[0]), "./") == "heartwood":
		return "heartwood", words[1:]
	case len(words) > 0 && words[0] == "make":
		return "make", words[1:]
	}
	return "", nil
}

// simpleCommands splits a line of a shell into its commands, and each into words. Comments,
// redirections and command substitutions are left out; quotes are removed.
func simpleCommands(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	quote, inWord := rune(0), false
	flush := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, c := range line + ";" {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			return append(commands, words)
		case c == ' ' || c == '\t':
			flush()
		case strings.ContainsRune(";|&()", c):
			flush()
			commands, words = append(commands, words), nil
		case c == '>' || c == '<':
			flush()
			words = append(words, string(c))
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	for index, command := range commands {
		for _, redirection := range []string{">", "<"} {
			if cut := slices.Index(command, redirection); cut >= 0 {
				command = command[:cut]
			}
		}
		commands[index] = command
	}
	return commands
}

// documents returns the Markdown files of the repository, without test data.
func documents(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(repository, func(name string, entry fs.DirEntry, err error) error {
		switch base := filepath.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && (base == "testdata" || base == "bin" || len(base) > 2 && base[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(base, ".md"):
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// shellLines returns the commands in code spans, and those in code blocks with continuation lines
// joined: all lines of blocks of language sh and without a language, and lines with a prompt in
// blocks of language console.
func shellLines(t *testing.T, document string) (found []string) {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	block, joined := "-", ""
	for _, span := range commandSpan.FindAllStringSubmatch(string(content), -1) {
		found = append(found, strings.Join(strings.Fields(span[1]+" "+span[2]), " "))
	}
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSpace(line)
		if language, ok := strings.CutPrefix(line, "```"); ok {
			if block == "-" {
				block = language
			} else {
				block = "-"
			}
			continue
		}
		text, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case joined != "", prompt && block == "console", block == "sh", block == "":
			joined += text
		}
		if before, more := strings.CutSuffix(joined, `\`); more {
			joined = before
			continue
		}
		if joined != "" {
			found = append(found, joined)
		}
		joined = ""
	}
	return found
}
