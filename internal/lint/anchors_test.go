package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	anchoredLink = regexp.MustCompile(`\]\(([^)#\s]*)#([^)\s]+)\)`)
	heading      = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	anchorID     = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	// headingMarkup matches what a heading contains besides its text: the target of a link, and
	// characters of code and emphasis.
	headingMarkup = regexp.MustCompile("\\]\\([^)]*\\)|[`*\\[\\]]")
)

// TestAnchorsInDocumentsExist checks the anchors of links: the document must have a heading or an
// element with this id. GitHub and the site of make docs compute the same ids.
func TestAnchorsInDocumentsExist(t *testing.T) {
	all, checked := documents(t), 0
	known := map[string][]string{}
	for _, document := range all {
		known[document] = anchors(read(t, document))
	}
	for _, document := range all {
		for _, found := range anchoredLink.FindAllStringSubmatch(read(t, document), -1) {
			target := document
			if found[1] != "" {
				target = path.Join(path.Dir(document), found[1])
			}
			if strings.Contains(found[1], "://") || !slices.Contains(all, target) {
				continue // TestLinksInDocumentsExist checks the file
			}
			checked++
			if !slices.Contains(known[target], found[2]) {
				t.Errorf("%s links to %s#%s, which does not exist", document, target, found[2])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d anchors in links", checked)
	}
}

func TestAnchorsOfHeadings(t *testing.T) {
	page := "# The `a_b` of [x](y.md), *now*\n```sh\n# no heading\n```\n## On\n<a id=\"z\"></a>\n" +
		"## On\n"
	want := []string{"the-a_b-of-x-now", "on", "z", "on-1"}
	if got := anchors(page); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// anchors returns the ids in a document: those of headings, in GitHub's form, and those of
// elements.
func anchors(content string) (ids []string) {
	code, count := false, map[string]int{}
	for line := range strings.SplitSeq(content, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		for _, found := range anchorID.FindAllStringSubmatch(line, -1) {
			ids = append(ids, found[1])
		}
		found := heading.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		id := slug(headingMarkup.ReplaceAllString(found[1], ""))
		if count[id]++; count[id] > 1 {
			id = fmt.Sprintf("%s-%d", id, count[id]-1)
		}
		ids = append(ids, id)
	}
	return ids
}

// slug returns the id of a heading: its letters, digits, underscores and dashes in lower case, with
// a dash for each space.
func slug(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '_', c == '-':
			return unicode.ToLower(c)
		case c == ' ':
			return '-'
		}
		return -1
	}, text)
}
