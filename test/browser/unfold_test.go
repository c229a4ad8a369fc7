package browser

import (
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// opened is a JavaScript expression for the number of blocks that an unfolded block shows.
const opened = `document.querySelectorAll("a.b.open").length`

// unfoldsInPlace checks a log of 10,000 segments. A folded block unfolds in its row, by Enter and
// by a click, and folds again. Its segments are wide enough to be visible.
func unfoldsInPlace(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=many")
	b.await(`document.querySelector("#live").dataset.state === "live" &&
		document.querySelectorAll('a.b.folded[aria-expanded="false"]').length > 100`)
	folded := eval[int](b, `document.querySelectorAll("a.b").length`)
	b.js(`document.querySelectorAll("a.b.folded")[20].focus()`)
	key := eval[string](b, `document.activeElement.dataset.k`)
	b.key(kb.Enter)
	took := b.await(opened + ` > 1`)
	t.Logf("%d segments unfolded after %v", eval[int](b, opened), took)
	if at := eval[string](b, `document.activeElement.dataset.k`); at != key {
		t.Errorf("the focus is at block %q, want the first segment %s", at, key)
	}
	if width := eval[float64](b, `Math.min(...[...document.querySelectorAll("a.b.open .body")]
		.map((r) => r.getBoundingClientRect().width))`); width < 5 {
		t.Errorf("a segment is only %.1f pixels wide", width)
	}
	b.key(kb.ArrowRight)
	b.await(`/^Segment \d+ of many-0/.test(document.querySelector("#box:not([hidden]) h1")?.innerText)`)
	checkUnfolded(t, b)
	n := eval[int](b, opened)
	b.visit(eval[string](b, "location.href")) // the URL contains the unfolded blocks
	if again := eval[int](b, opened); again != n {
		t.Errorf("the page shows %d unfolded segments after a reload, %d before", again, n)
	}
	b.await(`document.querySelector("#live").dataset.state === "live"`)

	b.js(`document.querySelector("a.b.open:nth-of-type(n+2)").focus()`)
	b.await(`!document.querySelector("#box").hidden`)
	b.key(kb.Escape) // hides the details
	b.await(`document.querySelector("#box").hidden`)
	b.key(kb.Escape)
	b.await(opened + ` === 0`)
	if at := eval[string](b, `document.activeElement.dataset.k`); at != key {
		t.Errorf("the focus is at block %q after folding, want %s", at, key)
	}
	if now := eval[int](b, `document.querySelectorAll("a.b").length`); now != folded {
		t.Errorf("the row has %d blocks after folding, %d before", now, folded)
	}
	b.click("a.b.folded:nth-of-type(60) .body")
	b.await(opened + ` > 1`)
	b.click("a.fold rect")
	b.await(opened + ` === 0 && !document.querySelector("a.fold")`)
	unfoldsWithoutScripts(t, c, b)
}

// checkUnfolded checks the map's accessibility with an unfolded block.
func checkUnfolded(t *testing.T, b *browser) {
	script, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		return
	}
	b.js(string(script))
	for _, f := range checkAccess(b) {
		t.Errorf("an unfolded block: %s", f)
	}
}

// unfoldsWithoutScripts checks links that work without scripts. A folded block links to the list of
// its segments. The list links to the map with these segments unfolded, which links back to the map
// without them.
func unfoldsWithoutScripts(t *testing.T, c *cluster, b *browser) {
	call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	defer call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	link := func(selector string) string {
		return c.console + value(b, chromedp.AttributeValue(selector, "href")).Value
	}
	b.visit(c.console + "map?topic=many")
	b.visit(link("a.b.folded"))
	b.visit(link("p.back a"))
	title := value(b, chromedp.TextContent("a.b.open title"))
	b.visit(link("a.fold"))
	if title == "" || value(b, chromedp.TextContent("a.b.folded title")) == "" {
		t.Error("the map does not unfold without scripts")
	}
}
