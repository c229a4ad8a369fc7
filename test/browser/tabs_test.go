package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// tab opens another tab in the browser.
func (b *browser) tab() *browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &browser{t: b.t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // opens the tab
		b.t.Fatal(err)
	}
	return other
}

// show makes a tab visible in its window, like a click on the tab.
func (b *browser) show() {
	b.t.Helper()
	call(b, page.BringToFront, cdp.Empty{})
}

// hide makes the page believe that its tab is hidden.
func (b *browser) hide(hidden bool) {
	b.t.Helper()
	b.js(fmt.Sprintf(`Object.defineProperty(document, "hidden", {configurable: true, value: %t});
		document.dispatchEvent(new Event("visibilitychange"));`, hidden))
}

// sevenTabs opens more tabs than a browser opens connections to one origin over HTTP/1.1, which is
// six. If a hidden tab had a stream of updates, the seventh page would not load.
func sevenTabs(t *testing.T, c *cluster, b *browser) {
	// Focus emulation makes the first tab visible, regardless of the window's state.
	focus := func(enabled bool) {
		call(b, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: enabled})
	}
	focus(false)
	defer focus(true)
	state := `document.querySelector("#live")?.dataset.state`
	var tabs []*browser
	for i := range 7 {
		tab := b.tab()
		tab.show()
		tab.visit(c.console + "map?topic=customers")
		tab.await(state + ` === "live"`)
		for at, other := range tabs {
			if !eval[bool](other, "document.hidden") {
				other.hide(true) // headless Chromium may show all tabs
			}
			other.await(state + ` === "still"`)
			if text := other.text("#live"); text != "paused" {
				t.Errorf("tab %d says %q while tab %d is visible", at, text, i)
			}
		}
		tabs = append(tabs, tab)
	}
	tabs[0].show()
	if eval[bool](tabs[0], "document.hidden") {
		tabs[0].hide(false)
	}
	tabs[0].await(state + ` === "live"`)
	// The page must be up to date again, which means that a reload would not change it.
	shown := `[...document.querySelectorAll(".b.clean, .b.dirty")].map((b) => b.dataset.k).join()`
	before := eval[string](tabs[0], shown)
	tabs[0].visit(c.console + "map?topic=customers")
	if after := eval[string](tabs[0], shown); after != before {
		t.Errorf("the tab that was shown again has blocks %s, a new one %s", before, after)
	}
	for _, tab := range tabs {
		tab.checkFaults()
	}
}
