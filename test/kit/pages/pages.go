// Package pages extracts the shell commands of documents for tests that run them. It is pure. A
// command that it cannot classify is an error, because no command of a page must stay untested
// unnoticed.
package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Command is one shell command of a page.
type Command struct {
	Page   string // path of the page
	Line   int    // number of its first line
	Text   string // text without prompt, with continuation lines joined
	Inline bool   // true in a sentence or a table, false in a code block
}

func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

// programs are the programs with which a command can begin.
var programs = []string{"kubectl", "helm", "make", "go", "curl", "kcat", "printf", "ln",
	"bin/heartwood", "minisign", "sha256sum", "mkdir", "skopeo"}

// placeholders are the words in capitals that a reader replaces.
var placeholders = []string{"NAMESPACE", "OPERATOR-NAMESPACE", "POD", "CLUSTER", "TOPIC",
	"TRANSACTIONAL-ID", "PARTITION", "OFFSET", "USER", "GROUP", "CLAIM-UID", "CLAIM",
	"CLASS"}

// longestFirst are the placeholders, the longest first. The order matters because
// OPERATOR-NAMESPACE contains NAMESPACE.
var longestFirst = slices.SortedFunc(slices.Values(placeholders),
	func(a, b string) int { return len(b) - len(a) })

// capitals matches words in capitals outside single quotes and variables, such as NAMESPACE.
var (
	capitals = regexp.MustCompile(`(?:^|[\s/])([A-Z][A-Z-]+[A-Z])(?:$|[\s/])`)
	quoted   = regexp.MustCompile(`'[^']*'`)
	known    = regexp.MustCompile(`\b(?:` + strings.Join(longestFirst, "|") + `)\b`)
)

// Extract returns a page's commands: first the commands in code blocks, in their order, then the
// commands in sentences and tables. Code blocks of language sh contain only commands. In blocks of
// language console, commands begin with "$ ". Blocks without a language, and blocks of language
// promql, contain queries.
func Extract(page, content string) (commands []Command, err error) {
	language, inBlock := "", false
	lines := strings.Split(content, "\n")
	for index := 0; index < len(lines); index++ {
		line := strings.TrimSpace(lines[index])
		if fence, ok := strings.CutPrefix(line, "```"); ok {
			inBlock, language = !inBlock, fence
			if inBlock && !slices.Contains([]string{"", "sh", "console", "promql", "yaml", "json",
				"text"}, language) {
				return nil, fmt.Errorf("%s:%d: code block of unknown language %q", page, index+1, language)
			}
			continue
		}
		text, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case !inBlock || line == "":
			continue
		case language == "sh" && !strings.HasPrefix(line, "#"), language == "console" && prompt:
		case slices.Contains(programs, strings.Fields(text)[0]) && language != "console" &&
			language != "text":
			return nil, fmt.Errorf("%s:%d: a command in a block of language %q", page, index+1, language)
		default:
			continue
		}
		command := Command{Page: page, Line: index + 1}
		for strings.HasSuffix(text, `\`) && index+1 < len(lines) {
			index++
			text = strings.TrimSuffix(text, `\`) + strings.TrimSpace(lines[index])
		}
		command.Text = text
		if err := check(command); err != nil {
			return nil, err
		}
		commands = append(commands, command)
	}
	if inBlock {
		return nil, fmt.Errorf("%s: the last code block is not closed", page)
	}
	inline, err := inlineCommands(page, lines)
	return append(commands, inline...), err
}

// check returns an error for a command that a test cannot run.
func check(c Command) error {
	program := strings.Fields(c.Text)[0]
	if !slices.Contains(programs, program) && !c.Inline {
		return fmt.Errorf("%s: program %q is unknown", c, program)
	}
	bare, _, _ := strings.Cut(quoted.ReplaceAllString(known.ReplaceAllString(c.Text, "x"), "''"),
		" #")
	for _, found := range capitals.FindAllStringSubmatch(strings.ReplaceAll(bare, " ", "  "), -1) {
		if found[1] != "WARN" && found[1] != "ERROR" {
			return fmt.Errorf("%s: placeholder %s is unknown", c, found[1])
		}
	}
	return nil
}

// Substitute replaces a command's placeholders.
func (c Command) Substitute(values map[string]string) string {
	return known.ReplaceAllStringFunc(c.Text, func(name string) string {
		if value, ok := values[name]; ok {
			return value
		}
		return name
	})
}
