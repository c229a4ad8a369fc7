// Command textsample prints a sample of the repository's text, which a reader who did not write it
// reviews. The sample contains comments and log messages drawn with a seed, and every condition,
// event and help text. The reader marks each item as clear at first reading or not. CONTRIBUTING.md
// describes the procedure.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// item is a text with its place in the repository.
type item struct {
	place string // file:line
	text  string
}

// texts contains the repository's items by kind.
type texts struct {
	comments, logs, conditions, helps []item
}

func main() {
	seed := flag.Uint64("seed", 1, "seed of the draw; the same tree and seed give the same sample")
	comments := flag.Int("comments", 150, "number of comments to draw")
	logs := flag.Int("logs", 60, "number of log messages to draw")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	found, err := collect(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "textsample:", err)
		os.Exit(1)
	}
	draw := rand.New(rand.NewPCG(*seed, 0))
	list("Comments", sample(draw, found.comments, *comments))
	list("Log messages", sample(draw, found.logs, *logs))
	list("Conditions and events", found.conditions)
	list("Help texts", found.helps)
}

// sample returns n random items, in their order in the repository.
func sample(draw *rand.Rand, from []item, n int) []item {
	picked := draw.Perm(len(from))
	picked = picked[:min(n, len(picked))]
	slices.Sort(picked)
	drawn := make([]item, 0, len(picked))
	for _, index := range picked {
		drawn = append(drawn, from[index])
	}
	return drawn
}

func list(title string, items []item) {
	fmt.Printf("# %s (%d)\n\n", title, len(items))
	for number, it := range items {
		text := strings.ReplaceAll(strings.TrimRight(it.text, "\n"), "\n", "\n    ")
		fmt.Printf("%d. %s\n    %s\n\n", number+1, it.place, text)
	}
}

// collect parses all Go files below root, except generated ones, and returns their texts.
func collect(root string) (*texts, error) {
	found := &texts{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasPrefix(base, "zz_generated") {
			return nil
		}
		return found.file(root, name)
	})
	return found, err
}

func (f *texts) file(root, name string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	place := func(pos token.Pos) string { return fmt.Sprintf("%s:%d", rel, set.Position(pos).Line) }
	for _, group := range parsed.Comments {
		if text := strings.TrimSpace(group.Text()); len(strings.Fields(text)) > 3 {
			f.comments = append(f.comments, item{place(group.Pos()), text + context(name, set, parsed,
				group)})
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	states := strings.HasPrefix(rel, "controllers/") || rel == "internal/metadata/partition.go" ||
		strings.HasPrefix(rel, "api/summary/")
	// skip contains literals that are not condition texts: literals in log calls, in errors, and in
	// struct tags.
	skip := map[ast.Node]bool{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec, *ast.Field:
			if field, ok := node.(*ast.Field); ok && field.Tag != nil {
				skip[field.Tag] = true
			}
		case *ast.CallExpr:
			f.call(node, place, skip)
		case *ast.KeyValueExpr:
			f.keyed(rel, node, place)
		case *ast.BasicLit:
			text, isText := literal(node)
			if states && isText && !skip[node] && len(strings.Fields(text)) > 3 {
				f.conditions = append(f.conditions, item{place(node.Pos()), text})
			}
		}
		return true
	})
	return nil
}

// call adds the message of a log call to f.logs, or the help text of a flag's definition to
// f.helps. It adds the literals in log calls and errors to the set skip.
func (f *texts) call(call *ast.CallExpr, place func(token.Pos) string, skip map[ast.Node]bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	method := selector.Sel.Name
	switch {
	case slices.Contains([]string{"Errorf", "New"}, method):
		for _, arg := range call.Args {
			skip[arg] = true
		}
	case slices.Contains(logMethods, method):
		for index, arg := range call.Args {
			text, isText := literal(arg)
			skip[arg] = true
			if isText && index < 3 && strings.Contains(text, " ") {
				f.logs = append(f.logs, item{place(call.Pos()), method + " " + strconv.Quote(text)})
				break
			}
		}
	case strings.Contains(method, "Var"):
		if text, isText := literal(call.Args[len(call.Args)-1]); isText && len(call.Args) > 2 {
			name, _ := literal(call.Args[1])
			f.helps = append(f.helps, item{place(call.Pos()), "--" + name + ": " + text})
		}
	}
}

// logMethods are the methods of slog.Logger and logr.Logger whose message is a constant.
var logMethods = []string{
	"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext",
	"Log", "LogAttrs",
}

// keyed adds the value of a cobra command's field Short, Long or Example to f.helps.
func (f *texts) keyed(rel string, pair *ast.KeyValueExpr, place func(token.Pos) string) {
	key, ok := pair.Key.(*ast.Ident)
	if !ok || !strings.HasPrefix(rel, "cmd/") ||
		!slices.Contains([]string{"Short", "Long", "Example"}, key.Name) {
		return
	}
	if text := joined(pair.Value); text != "" {
		f.helps = append(f.helps, item{place(pair.Pos()), key.Name + ": " + text})
	}
}

// joined returns the text of a string literal or of a concatenation of string literals.
func joined(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return joined(sum.X) + joined(sum.Y)
	}
	text, _ := literal(e)
	return text
}

func literal(node ast.Node) (string, bool) {
	basic, ok := node.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// contextLines is the number of code lines shown below a comment.
const contextLines = 3

// context returns the code that is shown with a comment: the first line of the enclosing
// declaration, and the lines that follow the comment or that the comment ends.
func context(name string, set *token.FileSet, file *ast.File, group *ast.CommentGroup) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(content), "\n")
	first, last := set.Position(group.Pos()), set.Position(group.End()).Line
	from, to := last, last+contextLines // zero-based numbers of the lines after the comment
	if strings.TrimSpace(lines[first.Line-1][:first.Column-1]) != "" {
		from, to = first.Line-1, last // the comment ends a line of code, which is shown
	}
	var code strings.Builder
	for _, decl := range file.Decls {
		head := set.Position(decl.Pos()).Line
		if head < first.Line && group.Pos() < decl.End() && head-1 < from {
			code.WriteString("\n>>> " + strings.TrimSpace(lines[head-1]) + " [...]")
		}
	}
	for _, line := range lines[from:min(to, len(lines))] {
		if strings.TrimSpace(line) == "" {
			break
		}
		code.WriteString("\n>>> " + strings.TrimRight(line, " \t"))
	}
	return code.String()
}
