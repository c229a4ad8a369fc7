package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// inlinePrograms are the programs whose commands are recognized in sentences.
var inlinePrograms = []string{"kubectl", "helm", "heartwood"}

// span matches a Markdown code span, which can contain a line break.
var span = regexp.MustCompile("`([^`]+)`")

// Mentions are programs and commands that sentences mention without the required arguments. Such a
// sentence only describes the command; a reader does not run it in this form.
var Mentions = []string{
	"heartwood dev",
	"heartwood partitions",
	"heartwood plan",
	"heartwood transactions",
	"helm install",
	"helm uninstall",
	"kubectl apply",
	"kubectl drain",
	"kubectl heartwood",
	"kubectl heartwood retained remove",
	"kubectl port-forward",
	"kubectl rollout status",
}

// inlineCommands returns the commands in a page's sentences and tables.
func inlineCommands(page string, lines []string) (commands []Command, err error) {
	for _, paragraph := range paragraphs(lines) {
		if strings.Count(paragraph.text, "`")%2 != 0 {
			return nil, fmt.Errorf("%s:%d: a code span is not closed", page, paragraph.line)
		}
		for _, indexes := range span.FindAllStringSubmatchIndex(paragraph.text, -1) {
			words := strings.Fields(paragraph.text[indexes[2]:indexes[3]])
			text := strings.ReplaceAll(strings.Join(words, " "), `\|`, "|")
			if len(words) < 2 || !slices.Contains(inlinePrograms, words[0]) ||
				slices.Contains(Mentions, text) {
				continue
			}
			command := Command{Page: page, Text: text, Inline: true,
				Line: paragraph.line + strings.Count(paragraph.text[:indexes[0]], "\n")}
			if err := check(command); err != nil {
				return nil, err
			}
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// paragraph is a part of a page. A code span cannot cross its end.
type paragraph struct {
	line int // number of its first line
	text string
}

// paragraphs returns a page's paragraphs and the rows of its tables, without code blocks.
func paragraphs(lines []string) (all []paragraph) {
	inBlock, open := false, false
	for index, line := range lines {
		line = strings.TrimSpace(line)
		fence := strings.HasPrefix(line, "```")
		inBlock = inBlock != fence
		switch {
		case fence, inBlock, line == "":
			open = false
			continue
		case open && !strings.HasPrefix(line, "|"):
			all[len(all)-1].text += "\n" + line
		default:
			all = append(all, paragraph{index + 1, line})
		}
		open = !strings.HasPrefix(line, "|")
	}
	return all
}
