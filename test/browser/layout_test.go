package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pageHeightMax is the maximum height of the list of 50 long records on a telephone, in pixels.
const pageHeightMax = 20_000

// overflow is a JavaScript expression for the number of pixels of a page or a table that are cut
// off.
const overflow = `Math.max(document.documentElement.scrollWidth - innerWidth,
	...[...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth))`

// pagesFit checks that a window of a usual width cuts off no column of Topics and Messages, that
// short keys are not broken, and that long records do not make a page endless on a telephone.
func pagesFit(t *testing.T, c *cluster, b *browser) {
	records := make([]*kgo.Record, 60)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders", Key: []byte("order-of-the-year-2026-11-28"),
			Value: []byte(strings.Repeat("lorem ipsum ", 400))}
	}
	c.produce(records...)
	defer call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: 1440, Height: 1000, DeviceScaleFactor: 1})
	for _, width := range []int64{1440, 1280, 1024, 390} {
		b.size(width, 900)
		for _, page := range []string{"topics", "topic?name=orders", "topic?name=customers"} {
			b.visit(c.console + page)
			if got := eval[int](b, overflow); got > 0 && (width > 390 || page != "topics") {
				t.Errorf("%s at %d pixels: %d are cut off", page, width, got)
			}
		}
		b.visit(c.console + "topic?name=orders")
		height := eval[int](b, `document.documentElement.scrollHeight`)
		lines := eval[int](b, `Math.round(document.querySelector("td.key code").offsetHeight /
			parseFloat(getComputedStyle(document.querySelector("td.key code")).lineHeight))`)
		if height > pageHeightMax || lines != 1 {
			t.Errorf("Messages at %d pixels: %d high, a key has %d lines", width, height, lines)
		}
	}
}

// garbageHasAPattern checks that garbage differs from clean segments by more than its colour.
func garbageHasAPattern(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	fill := eval[string](b, `getComputedStyle(document.querySelector(".legend .garbage")).fill`)
	if !strings.Contains(fill, "#waste") ||
		!eval[bool](b, `document.querySelector("pattern#waste") !== null`) {
		t.Errorf("garbage is filled with %s", fill)
	}
}

// unknownPathHasStyles opens a path that does not exist, and then another page from there.
func unknownPathHasStyles(_ *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "no/such/page")
	b.await(`getComputedStyle(document.body).margin === "0px"`)
	b.click(`nav a[href$="topics"]`)
	b.await(`location.pathname.endsWith("/console/topics") && document.querySelector("table.topics")`)
}

// tablesAreSorted clicks a column's header twice, without scripts.
func tablesAreSorted(t *testing.T, c *cluster, b *browser) {
	call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	defer call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{})
	b.visit(c.console + "topics")
	for _, want := range []string{"descending", "ascending"} {
		b.click(`a.sort[href*="size"]`)
		value(b, chromedp.WaitVisible(`th[aria-sort="`+want+`"]`))
	}
	if first := b.text("tbody th"); strings.Contains(first, "customers") {
		t.Errorf("the smallest topic is %s", first)
	}
}

// recordPage goes from a record to the neighbouring records and back to the list, and copies the
// record's value.
func recordPage(_ *testing.T, c *cluster, b *browser) {
	for i := range 3 {
		c.produce(&kgo.Record{Topic: "orders", Key: []byte("json"),
			Value: fmt.Appendf(nil, `{"balance":%d,"tags":["a"]}`, i)})
	}
	b.visit(c.console + "topic?name=orders&key=json&position=earliest&limit=5")
	b.click(`td[data-name="offset"] a`)
	b.await(`location.pathname.endsWith("/message") && !document.querySelector("[data-copy]")?.hidden`)
	b.js(`window.copied = ""; navigator.clipboard.writeText = async (text) => { window.copied = text; }`)
	b.click("[data-copy]")
	b.await(`JSON.parse(window.copied).balance !== undefined && window.copied.includes("\n  \"balance\"")`)
	first := b.text("h1")
	b.click(`a[rel="next"]`)
	b.await(`document.querySelector("h1").innerText !== ` + quote(first))
	b.click(`a[rel="prev"]`)
	b.await(`document.querySelector("h1").innerText === ` + quote(first))
	b.click(`.controls a:not(.button)`)
	b.await(`location.search.includes("key=json") && location.search.includes("limit=5")`)
}
