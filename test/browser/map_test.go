package browser

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// block is a block of the map, as read from the browser.
type block struct {
	Key           string
	Class         string
	Garbage, Body float64 // heights in pixels
	Width         float64
	Label         string
}

// blocks returns a JavaScript expression for the blocks in a row.
func blocks(row string) string {
	return `[...document.querySelectorAll('[data-row="` + row + `"] a.b')].map((a) => ({
		key: a.dataset.k, class: a.getAttribute("class"), label: a.getAttribute("aria-label"),
		garbage: +a.querySelector(".garbage").getAttribute("height"),
		body: +a.querySelector(".body").getAttribute("height"),
		width: parseFloat(a.querySelector(".body").getAttribute("width"))}))`
}

// TestConsole runs its steps on one cluster.
func TestConsole(t *testing.T) {
	b := open(t)
	c := startCluster(t, "")
	b.t = t
	for _, seed := range []uint64{0, 1} {
		c.produce(customers(60_000, seed)...)
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *cluster, *browser)
	}{
		{"MapEqualsFiles", mapEqualsFiles}, {"Details", detailsOnHoverAndFocus},
		{"Keyboard", keyboard}, {"KeyboardOnly", keyboardOnly}, {"Replay", replayPlays},
		{"Dialog", cleanDialog}, {"SevenTabs", sevenTabs}, {"Kill", killShowsAndHeals},
		{"WithoutScripts", worksWithoutScripts},
		{"UnknownPath", unknownPathHasStyles}, {"Garbage", garbageHasAPattern},
		{"Sorted", tablesAreSorted},
		{"HostileRecords", hostileRecords}, {"Tail", tailFollows}, {"Proxies", worksBehindProxies},
		{"TooManyTails", tooManyTails}, {"Record", recordPage}, {"Layout", pagesFit},
		{"Changes", changes}, {"Accessibility", accessibility},
		{"ManySegments", manySegments}, {"Unfold", unfoldsInPlace},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			b.t, c.t = t, t
			step.run(t, c, b)
			b.checkFaults()
		}) {
			t.Logf("step %s failed", step.name)
		}
	}
}

// idle is a JavaScript expression that is true when no pass runs or is queued.
const idle = `document.querySelector("#live").dataset.state === "live" &&
	![...document.querySelectorAll(".status strong")].some((e) => /run|wait/.test(e.className))`

// mapEqualsFiles compares the blocks with the leaders' segment files and .dead files. If the passes
// have left no garbage, it creates some: too little in each segment for a rewrite.
func mapEqualsFiles(t *testing.T, c *cluster, b *browser) {
	garbage := comparePartitions(t, c, b)
	for seed := uint64(10); garbage == 0 && seed < 15; seed++ {
		c.produce(customers(2_000, seed)...)
		response, err := http.PostForm(c.console+"clean", url.Values{"topic": {"customers"}})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		garbage = comparePartitions(t, c, b)
	}
	if garbage == 0 {
		t.Error("no segment has garbage: the test has compared nothing")
	}
}

// comparePartitions compares the blocks of each partition, and returns the number of blocks with
// garbage.
func comparePartitions(t *testing.T, c *cluster, b *browser) (garbage int) {
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	for partition := range 4 {
		id := strconv.Itoa(partition)
		// Segments are deleted shortly after the event of their pass.
		await.For(t, func() string {
			var broker int
			leads := eval[string](b, `document.querySelector('[data-row="`+id+`"] .note').innerText`)
			if _, err := fmt.Sscanf(leads, "broker %d leads", &broker); err != nil {
				t.Fatalf("the row says %q", leads)
			}
			fault, n := compare(c, eval[[]block](b, blocks(id)), broker, "customers-"+id)
			if fault != "" {
				return "customers-" + id + ": " + fault
			}
			garbage += n
			return ""
		})
	}
	return garbage
}

// compare returns a difference between the blocks and the files, and the number of blocks with
// garbage.
func compare(c *cluster, found []block, broker int, partition string) (fault string, garbage int) {
	files, dead := c.logFiles(broker, partition), c.deadBytes(broker, partition)
	if len(found) != len(files) {
		return fmt.Sprintf("%d blocks of %d files", len(found), len(files)), 0
	}
	perByte := 0.0
	for _, of := range found {
		base, _ := strconv.ParseInt(of.Key, 10, 64)
		size, ok := files[base]
		if !ok {
			return fmt.Sprintf("block %d has no file", base), 0
		}
		share := of.Garbage / of.Body
		if want := float64(dead[base]) / float64(max(1, size)); math.Abs(share-want) > 0.03 &&
			strings.Contains(of.Class, "clean") {
			return fmt.Sprintf("block %d shows %.2f garbage, the .dead file %.2f", base, share, want), 0
		}
		if share > 0.01 {
			garbage++
		}
		if size < 512<<10 || strings.Contains(of.Class, "blocked") {
			continue // blocks of minimum width and growing blocks are not compared
		}
		if perByte == 0 {
			perByte = of.Width / float64(size)
		}
		if ratio := of.Width / float64(size) / perByte; ratio < 0.97 || ratio > 1.03 {
			return fmt.Sprintf("block %d: its width per byte differs by %.2f", base, ratio), 0
		}
	}
	return "", garbage
}

func detailsOnHoverAndFocus(_ *testing.T, c *cluster, b *browser) {
	for _, how := range []string{`dispatchEvent(new PointerEvent("pointerover", {bubbles: true}))`,
		`focus()`} {
		b.visit(c.console + "map?topic=customers")
		b.await(idle)
		b.js(`document.querySelector('[data-row="1"] a.b').` + how)
		b.await(`!document.querySelector("#box").hidden`)
		b.await(`/Segment \d+ of customers-1/.test(document.querySelector("#box").innerText)
			&& document.querySelector("#box").innerText.includes("on disk")`)
	}
}

func keyboard(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	focused := `document.activeElement.dataset.k + "@" +
		document.activeElement.closest("[data-row]").dataset.row`
	b.js(`document.querySelector('[data-row="0"] a.b[tabindex="0"]').focus()`)
	first := eval[string](b, focused)
	b.key(kb.ArrowRight)
	if second := eval[string](b, focused); second == first {
		t.Errorf("arrow right stays at %s", second)
	}
	b.key(kb.ArrowDown)
	if row := eval[string](b, `document.activeElement.closest("[data-row]").dataset.row`); row != "1" {
		t.Errorf("arrow down leads to row %s", row)
	}
	b.key(kb.ArrowUp)
	b.key(kb.Home)
	if got := eval[string](b, focused); got != first {
		t.Errorf("home leads to %s, want %s", got, first)
	}
	b.await(`!document.querySelector("#box").hidden`)
	b.key(kb.Escape)
	b.await(`document.querySelector("#box").hidden`)
	b.key("/")
	if name := eval[string](b, `document.activeElement.name`); name != "topic" {
		t.Errorf("/ moves to %q, want the choice of the topic", name)
	}
	b.js(`document.querySelector('[data-row="0"] a.b').focus()`)
	b.key(kb.Enter)
	b.await(`location.pathname.endsWith("/segment") && document.querySelector("h1").innerText.startsWith("Segment")`)
}

// replayPlays plays a pass to its end. The row becomes shorter, because the pass frees bytes.
func replayPlays(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	b.await(`document.querySelector("a.play")`)
	b.visit(eval[string](b, `[...document.querySelectorAll("a.play")].at(-1).href`))
	b.await(`document.querySelector("#play") && !document.querySelector("#play").hidden`)
	length := `[...document.querySelectorAll("a.b .body")].reduce((s, r) => s + parseFloat(r.getAttribute("width")), 0)`
	before, chosen := eval[float64](b, length), eval[int](b, `document.querySelectorAll("a.chosen").length`)
	if chosen == 0 {
		t.Error("the first step shows no chosen segment")
	}
	b.click("#play")
	b.await(`document.querySelector("a.current")`)
	b.await(`document.querySelector("#play").innerText === "Play again"`)
	if after := eval[float64](b, length); after >= before {
		t.Errorf("the row has %.1f percent after the pass and %.1f before", after, before)
	}
	if text := eval[string](b, `document.querySelector("#caption").innerText`); !strings.Contains(text,
		"are gone") {
		t.Errorf("the last step says %q", text)
	}
	b.js(`(() => { const s = document.querySelector("input[type=range]");
		s.value = 0; s.dispatchEvent(new Event("input")); })()`)
	if back := eval[float64](b, length); math.Abs(back-before) > 0.1 {
		t.Errorf("the slider leads back to %.1f percent, want %.1f", back, before)
	}
}

// cleanDialog requests a pass with the dialog.
func cleanDialog(_ *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	b.click("a#clean")
	b.await(`document.querySelector("dialog[open]")`)
	b.key(kb.Escape)
	b.await(`!document.querySelector("dialog")`)
	b.click("a#clean")
	b.await(`document.querySelector("dialog[open] form button")`)
	b.click("dialog form button")
	b.await(`location.search.includes("asked=1") && document.querySelector("main")?.innerText.includes("A pass was requested")`)
	b.await(`[...document.querySelectorAll("td")].some((e) => e.innerText === "requested") ||
		(location.reload(), false)`)
}

// killShowsAndHeals checks that the page names a broker after kill -9, and that the notice
// disappears when the broker has restarted.
func killShowsAndHeals(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	c.kill(1)
	took := b.await(`!document.querySelector("#missing").hidden`)
	t.Logf("shown after %v", took)
	b.await(`document.querySelector("#missing").hidden`)
	b.await(idle)
	b.await(`!document.body.innerText.includes("No report")`)
}

func worksWithoutScripts(t *testing.T, c *cluster, b *browser) {
	disable := func(disabled bool) {
		call(b, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: disabled})
	}
	disable(true)
	defer disable(false)
	b.visit(c.console + "map?topic=customers")
	if got := b.text("main"); !strings.Contains(got, "customers-3") || !strings.Contains(got, "Passes") {
		t.Errorf("the map contains only %.300q", got)
	}
	title := value(b, chromedp.TextContent(`[data-row="0"] a.b title`))
	link := value(b, chromedp.AttributeValue("a.play", "href")).Value
	if !strings.HasPrefix(title, "Segment ") {
		t.Errorf("a block has the title %q", title)
	}
	b.visit(c.console + link + "&step=2")
	if got := b.text("#caption"); got == "" || !strings.HasPrefix(b.text("#count"), "2 of ") {
		t.Errorf("the replay says %q at %q", got, b.text("#count"))
	}
	for path, want := range map[string]string{"": "Garbage by topic", "topics": "customers",
		"topic?name=customers":                       "Looked at",
		"topic?name=customers&tab=keys&key=C-000001": "The search was complete", "brokers": "free of",
		"clean?topic=customers": "requests a pass"} {
		b.visit(c.console + path)
		if got := b.text("main"); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q: %.300q", path, want, got)
		}
	}
}

// manySegments checks that a log of 10,000 segments is drawn within a second.
func manySegments(t *testing.T, c *cluster, b *browser) {
	c.produceWith([]kgo.Opt{kgo.ProducerBatchMaxBytes(1 << 10)}, many(10_000))
	b.visit(c.console + "map?topic=many") // the first visit reads the headers of all segments
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.visit(c.console + "map?topic=many")
	b.await(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	paint := eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	n := eval[int](b, `document.querySelectorAll("a.b").length`)
	labels := eval[string](b, `document.querySelector(".facts-of .note").innerText`)
	t.Logf("first paint after %.0f ms, %d blocks: %s", paint, n, labels)
	if paint > 1000 {
		t.Errorf("first paint after %.0f ms, want at most 1000", paint)
	}
	if n == 0 || n > 1500 || !strings.Contains(labels, "10,00") {
		t.Errorf("got %d blocks of %s", n, labels)
	}
}

// TestSlowPassFillsBlocks checks that the block that a slow pass is reading fills gradually.
func TestSlowPassFillsBlocks(t *testing.T) {
	b := open(t)
	// A pass must replace several groups of segments, and a batch must fit into a segment.
	c := startClusterOf(t, "1Mi", "256Ki")
	for seed := range uint64(2) {
		for part := range slices.Chunk(customers(60_000, seed), 1_000) {
			c.produce(part...)
		}
	}
	b.visit(c.console + "map?topic=customers")
	b.js(`window.seen = {}; new MutationObserver(() => {
		seen.written ||= !!document.querySelector(".b.written");
		seen.speed ||= [...document.querySelectorAll(".status .note")].some((e) =>
			/^[\d.]+ [KM]iB\/s, throttled for .* s; read /.test(e.innerText));
	}).observe(document.querySelector("#map"), {subtree: true, childList: true, attributes: true})`)
	b.await(`document.querySelector(".b.chosen")`)
	read := `Math.max(0, ...[...document.querySelectorAll(".b.current")].map((a) =>
		parseFloat(a.querySelector(".read").getAttribute("width")) /
		parseFloat(a.querySelector(".body").getAttribute("width"))))`
	b.await(read + " > 0.05")
	first := eval[float64](b, read)
	b.await(fmt.Sprintf("(%s) > %f || seen.written", read, first))
	b.await(`seen.written && seen.speed`)
	b.await(`document.querySelector("#say").textContent !== ""`)
	b.checkFaults()
}
