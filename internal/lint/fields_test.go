package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clauseOpeners are words that begin a clause and not a noun phrase.
var clauseOpeners = strings.Fields(`if whether when why what how who where unless until while it
	there is are was has have does do may can must should also so`)

// fieldVerbs are words that are verbs at the beginning of a comment if a determiner follows.
// Otherwise many of them can be nouns, as in "writes of the log".
var fieldVerbs = strings.Fields(`accept add adds allow allows answer appends applies apply build
	builds cancels check checks clean cleans close closes connects contain contains counts create
	creates decide decides delete deletes describe describes distinguishes end ends fetch find finds
	follow grows guards hide hold holds identifies ignore includes keep keeps leave leaves makes
	matches moves omit open opens prevents print prints provides read reads receive receives reject
	rejects releases remove removes render repeat repeats report reports resets return returns run
	runs search select selects serve serves sets show shows skip skips start starts stop stops store
	stores tells uses verify wait waits wraps write writes`)

var determiner = regexp.MustCompile(
	"^(the|a|an|all|any|each|every|no|one|only|this|these|its|their|it|them|what|how|from) ")

// isClause reports whether the trailing comment on a field is a clause.
func isClause(field ast.Expr, comment string) bool {
	first, rest, _ := strings.Cut(strings.TrimSpace(comment), " ")
	if _, function := field.(*ast.FuncType); function {
		return first == "may"
	}
	if slices.Contains(clauseOpeners, strings.TrimRight(first, ",;:")) {
		return true
	}
	if typ, ok := field.(*ast.SelectorExpr); ok && strings.HasSuffix(typ.Sel.Name, "Mutex") {
		return false
	}
	return slices.Contains(fieldVerbs, first) && determiner.MatchString(rest+" ")
}

// TestFieldCommentsAreNounPhrases checks that the trailing comment of a struct field is a noun
// phrase that says what the field is. It must not begin with a conjunction, a question word or an
// auxiliary verb ("whether", "may be nil"), nor with a verb in fieldVerbs and a determiner ("reads
// the"). The comment of a function may begin with a verb, like the comment of a func declaration,
// and the comment of a mutex with "guards", as is usual in Go.
func TestFieldCommentsAreNounPhrases(t *testing.T) {
	checked := 0
	for _, file := range sources(t) {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, root+file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			fields, ok := node.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range fields.Fields.List {
				if field.Comment == nil {
					continue
				}
				checked++
				if isClause(field.Type, field.Comment.Text()) {
					t.Errorf("%s: not a noun phrase: %s", fset.Position(field.Pos()), field.Comment.Text())
				}
			}
			return true
		})
	}
	if checked < 1000 {
		t.Errorf("found %d comments, want at least 1000", checked)
	}
}

func TestClausesInFieldCommentsAreFound(t *testing.T) {
	for _, test := range []struct {
		field, comment string
		want           bool
	}{
		{"bool", "whether the log is clean", true},
		{"bool", "search all partitions", true},
		{"string", "why: the reason", true},
		{"func() int", "may be nil", true},
		{"func() int", "returns the number of brokers", false},
		{"sync.Mutex", "guards all fields", false},
		{"int", "guards all fields", true},
		{"int", "writes of the log", false},
		{"int", "runs without an error", false},
		{"time.Time", "end of the last pass", false},
		{"string", "returned to the client", false},
	} {
		field, err := parser.ParseExpr(test.field)
		if err != nil {
			t.Fatal(err)
		}
		if got := isClause(field, test.comment); got != test.want {
			t.Errorf("%s // %s: got %t, want %t", test.field, test.comment, got, test.want)
		}
	}
}
