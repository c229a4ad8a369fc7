package summary

import (
	"os"
	"strings"
	"testing"
)

// TestEveryReasonIsExplained checks that each reason has all its texts, and that docs/use/http.md
// gives the same meaning.
func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range reasons {
		if known.Condition == "" || known.Why(Facts{Transaction: "x"}) == "" ||
			known.Short(Facts{}) == "" {
			t.Errorf("%s lacks a text", known.Reason)
		}
		row := "| `" + known.Reason + "` | " + known.Manual + " |\n"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/use/http.md lacks the row %s", row)
		}
	}
	if _, ok := Explain("OfANewerVersion"); ok {
		t.Error("an unknown reason is explained")
	}
}

// TestSegmentsHaveOneExplanation checks that each value of report.Segment.BlockedBy has exactly one
// explanation, and that an unknown value has none.
func TestSegmentsHaveOneExplanation(t *testing.T) {
	for by, want := range map[string]string{
		"active_segment":   "it is the active segment, which takes appends",
		"min_lag":          "its records are younger than compaction.minLag",
		"open_transaction": "an open transaction begins before its end",
		"unreplicated":     "its records are not on all in-sync replicas yet",
		"quarantined":      "the last pass failed and is retried with backoff",
		"of_the_future":    "",
		"":                 "",
	} {
		if got, known := ExplainSegment(by); got != want || known != (want != "") {
			t.Errorf("%s: got %q, known %t", by, got, known)
		}
	}
}
