package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// columnsMax is the maximum width of a line of code, comments or prose. A tab counts as one column.
const columnsMax = 100

// phrasesFile lists forbidden phrases, one per line. Readers have to read such wording twice.
const phrasesFile = "hack/phrases.txt"

var (
	// marker matches a comment for a tool; it cannot be wrapped.
	marker = regexp.MustCompile(`^\s*(//go:|// ?\+kubebuilder|//nolint|#!)`)
	// quoted matches a line with a string literal; string literals may exceed the limit.
	quoted = regexp.MustCompile("[\"`]")
	// generated lists files and directories that a program generates.
	generated = []string{"docs/use/broker-configs.md", "docs/operate/metrics.md", "docs/use/resources.md",
		"charts/heartwood/files/"}
)

// TestLinesEndAtColumn100 checks the width of lines in Go code, documents and comments of scripts.
// It ignores lines that cannot be broken: directives, URLs, tables, code blocks of documents, and
// string literals.
func TestLinesEndAtColumn100(t *testing.T) {
	for _, file := range sources(t) {
		raw := rawStringLines(t, file)
		for number, line := range strings.Split(read(t, file), "\n") {
			exempt := raw[number+1] || marker.MatchString(line) || quoted.MatchString(line)
			prose := comment(line) && !raw[number+1] && !marker.MatchString(line)
			if long(line) && (prose || !exempt) {
				t.Errorf("%s:%d: %d columns", file, number+1, utf8.RuneCountInString(line))
			}
		}
	}
	for _, file := range documents(t) {
		if isGenerated(file) {
			continue
		}
		code := false
		for number, line := range strings.Split(read(t, file), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if long(line) && !code && !strings.HasPrefix(strings.TrimSpace(line), "|") {
				t.Errorf("%s:%d: %d columns", file, number+1, utf8.RuneCountInString(line))
			}
		}
	}
	for _, file := range scripts(t) {
		for number, line := range strings.Split(read(t, file), "\n") {
			if long(line) && comment(line) {
				t.Errorf("%s:%d: %d columns", file, number+1, utf8.RuneCountInString(line))
			}
		}
	}
}

// TestPhrasesStayOut checks that no file contains a phrase in phrasesFile, or a sentence whose
// subject is a question word, such as "Who waits is woken". If a phrase in the list is needed as a
// technical term, remove it from the list.
func TestPhrasesStayOut(t *testing.T) {
	var phrases []string
	for _, line := range strings.Split(strings.TrimSpace(read(t, phrasesFile)), "\n") {
		if !strings.HasPrefix(line, "#") {
			phrases = append(phrases, line)
		}
	}
	if len(phrases) == 0 {
		t.Fatalf("%s lists no phrase", phrasesFile)
	}
	files := append(append(sources(t), documents(t)...), scripts(t)...)
	for _, file := range files {
		for number, line := range strings.Split(read(t, file), "\n") {
			lower := strings.ToLower(line)
			for _, phrase := range phrases {
				if containsWords(lower, phrase) {
					t.Errorf("%s:%d: %q", file, number+1, phrase)
				}
			}
			for _, word := range questionWords {
				if strings.Contains(line, word) && questionSubject.MatchString(line) {
					t.Errorf("%s:%d: a sentence begins with %q", file, number+1, word)
				}
			}
		}
	}
}

var (
	questionWords = []string{"Who ", "Whom ", "What ", "Whatever ", "Nobody "}
	// questionSubject matches a question word at the beginning of a comment or sentence if one of the
	// listed verbs or nouns follows.
	questionSubject = regexp.MustCompile(`(^|[.;:] +|// |# )(Who|Whom|What|Whatever|Nobody) ` +
		`(has|have|is|was|are|were|stops|waits|holds|writes|reads|may|can|does|did|comes|came|goes|` +
		`lies|stands|could|would|must|still|we|it|they|a|an|the|no|nobody|somebody)\b`)
)

// containsWords reports whether a lower-case line contains a phrase as whole words.
func containsWords(line, phrase string) bool {
	for from := 0; ; {
		found := strings.Index(line[from:], phrase)
		if found < 0 {
			return false
		}
		begin, end := from+found, from+found+len(phrase)
		if (begin == 0 || !isLetter(line[begin-1])) && (end == len(line) || !isLetter(line[end])) {
			return true
		}
		from = end
	}
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' }

// rawStringLines returns the lines in a test file that are part of a raw string, such as a
// program's expected output, because they cannot be wrapped. For other files it returns no lines:
// there the limit also applies to raw strings, such as the help texts of commands.
func rawStringLines(t *testing.T, file string) map[int]bool {
	t.Helper()
	lines := map[int]bool{}
	if !isTest(file) {
		return lines
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, root+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(text.Value, "`") {
			for n := set.Position(text.Pos()).Line; n <= set.Position(text.End()).Line; n++ {
				lines[n] = true
			}
		}
		return true
	})
	return lines
}

// long reports whether a line exceeds columnsMax. It ignores lines with a URL, which cannot be
// broken.
func long(line string) bool {
	return utf8.RuneCountInString(line) > columnsMax && !strings.Contains(line, "://")
}

// comment reports whether a line consists only of a comment in Go, shell, make or YAML.
func comment(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "//") || strings.HasPrefix(line, "#")
}

// scripts returns the paths of shell scripts, the Makefile, YAML files and similar files that
// people write, relative to the root.
func scripts(t *testing.T) []string {
	t.Helper()
	found := []string{"Makefile", ".golangci.yml", "Dockerfile"}
	for _, folder := range []string{"hack", "charts", "config", ".github"} {
		err := filepath.WalkDir(root+folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if os.IsNotExist(err) {
					return filepath.SkipDir
				}
				return err
			}
			rel, err := filepath.Rel(root, name)
			rel = filepath.ToSlash(rel)
			switch filepath.Ext(rel) {
			case ".sh", ".bash", ".yaml", ".yml", ".tpl", ".txt":
				if rel != phrasesFile && !strings.HasPrefix(rel, "config/crd/") && !isGenerated(rel) {
					found = append(found, rel)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func isGenerated(file string) bool {
	for _, prefix := range generated {
		if strings.HasPrefix(file, prefix) {
			return true
		}
	}
	return false
}
