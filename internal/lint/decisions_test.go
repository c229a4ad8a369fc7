package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

const (
	// decisionTable lists the number, page and title of each decision.
	decisionTable = "docs/adr/README.md"
	// decisionPages is the directory of the pages that contain the decisions, by topic.
	decisionPages = "docs/internals/decisions"
)

var (
	decisionRow    = regexp.MustCompile(`(?m)^\| \[(\d{4})\]\(([^)#]+)#?([^)]*)\) \| .+ \|$`)
	decisionAnchor = regexp.MustCompile(`(?m)^<a id="adr-(\d{4})"></a>$`)
	// citedDecisions matches numbers of decisions in documents and comments: "ADR 0112", "ADRs 0080
	// and 0081". A line may end between the words.
	citedDecisions = regexp.MustCompile(
		`\bADRs?[\s/#]+\[?\d{4}\b(?:(?:,|,? and)[\s/#]+\[?\d{4}\b)*`,
	)
	decisionNumber = regexp.MustCompile(`\d{4}`)
)

// TestDecisionsAreInTheTable checks that each decision has one row in decisionTable and one anchor
// in decisionPages, and that the row links to the anchor.
func TestDecisionsAreInTheTable(t *testing.T) {
	anchors := map[string][]string{}
	for _, document := range documents(t) {
		if path.Dir(document) == decisionPages {
			for _, found := range decisionAnchor.FindAllStringSubmatch(read(t, document), -1) {
				anchors[found[1]] = append(anchors[found[1]], document)
			}
		}
	}
	rows := decisionRow.FindAllStringSubmatch(read(t, decisionTable), -1)
	if lines := strings.Count(read(t, decisionTable), "\n| ["); lines != len(rows) {
		t.Errorf("%s: %d of %d rows have a number, a link and a title",
			decisionTable, len(rows), lines)
	}
	seen := map[string]bool{}
	for _, row := range rows {
		number, target, anchor := row[1], path.Join(path.Dir(decisionTable), row[2]), row[3]
		pages := anchors[number]
		if len(pages) != 1 || pages[0] != target || anchor != "adr-"+number {
			t.Errorf("%s: row %s links to %s#%s, but the anchor adr-%s is in %v",
				decisionTable, number, target, anchor, number, pages)
		}
		if seen[number] {
			t.Errorf("%s: %s has two rows", decisionTable, number)
		}
		seen[number] = true
	}
	for number, pages := range anchors {
		if !seen[number] {
			t.Errorf("%v: adr-%s has no row in %s", pages, number, decisionTable)
		}
	}
}

// TestCitedDecisionsExist checks that each decision that a document or a comment cites is in
// decisionTable.
func TestCitedDecisionsExist(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range decisionRow.FindAllStringSubmatch(read(t, decisionTable), -1) {
		listed[row[1]] = true
	}
	cited := 0
	for _, file := range append(append(sources(t), documents(t)...), scripts(t)...) {
		for _, citation := range citedDecisions.FindAllString(read(t, file), -1) {
			for _, number := range decisionNumber.FindAllString(citation, -1) {
				cited++
				if !listed[number] {
					t.Errorf("%s cites ADR %s, which is not in %s", file, number, decisionTable)
				}
			}
		}
	}
	if cited == 0 {
		t.Error("no file cites a decision")
	}
}
