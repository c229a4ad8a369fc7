package browser

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	picturesDir = "../../docs/pictures"
	pictureMax  = 300 << 10 // bytes
)

// wanted reports whether the test must write pictures.
func wanted() bool { return os.Getenv("PICTURES") != "" }

// picture writes a picture of the window.
func (b *browser) picture(name string, width, height int64) {
	b.t.Helper()
	b.size(width, height)
	b.write(name, call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data)
}

// size sets the window's size.
func (b *browser) size(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1})
}

// TestPictures writes the pictures of README.md, docs/use/console.md and docs/use/cleaner-pass.md.
func TestPictures(t *testing.T) {
	if !wanted() {
		t.Skip("PICTURES is not set")
	}
	b := open(t)
	c := startClusterOf(t, "", "256Ki")
	const keys = 120_000
	small := []kgo.Opt{kgo.ProducerBatchMaxBytes(32 << 10)} // a batch must fit into a segment
	// The first passes run without a limit. They leave a clean log with some garbage.
	for seed := range uint64(3) {
		c.produceWith(small, updates(100_000, keys, seed))
	}
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	c.limit("1Mi")
	last := updates(100_000, keys, 3)
	c.produceWith(small, last)
	for _, dark := range []bool{false, true} {
		mapPicture(b, c, dark)
		keysPicture(b, c, dark, mostUpdated(last))
	}
	c.limit("")
	b.visit(c.console + "map?topic=customers")
	b.await(idle)
	story(t, c, b)
	unfoldedPicture(b, c, updates(40_000, keys, 4))
}

// mostUpdated returns the key with the most records among the given records.
func mostUpdated(records []*kgo.Record) (key string) {
	times := map[string]int{}
	for _, r := range records[len(records)-20_000:] {
		k := string(r.Key)
		if times[k]++; times[k] > times[key] {
			key = k
		}
	}
	return key
}

// palette sets the browser's palette and returns the suffix for the names of its pictures.
func (b *browser) palette(dark bool) (suffix string) {
	b.t.Helper()
	b.dark(dark)
	if dark {
		return "-dark"
	}
	return ""
}

// allKinds is a JavaScript expression that finds a row with blocks that a pass has written, is
// reading and will rewrite. Every row must have dirty blocks, and another row must have garbage.
// The value is a block; the picture shows its details.
const allKinds = `(() => {
	const all = (row, what) => [...row.querySelectorAll(what)];
	const red = (b) => +b.querySelector(".garbage").getAttribute("height") > 6;
	const rows = all(document, "[data-row]");
	if (!rows.every((row) => all(row, ".b.dirty").length > 1)) return undefined;
	const row = rows.find((row) => all(row, ".b.written").length > 0 &&
		all(row, ".b.chosen:not(.current)").filter(red).length > 3 &&
		all(row, ".b.current .read").some((r) => parseFloat(r.getAttribute("width")) > 0));
	if (!row || !rows.some((other) => other !== row && all(other, ".b.clean").some(red))) return undefined;
	return all(rows.at(-1), ".b.clean, .b.dirty").filter(red)[4]; // its details hide no row
})()`

// mapPicture writes a picture of the map while passes run.
func mapPicture(b *browser, c *cluster, dark bool) {
	suffix := b.palette(dark)
	b.size(1440, 900)
	b.visit(c.console + "map?topic=customers")
	b.await(`(() => { const at = ` + allKinds + `; return at !== undefined &&
		at.dispatchEvent(new PointerEvent("pointerover", {bubbles: true})); })()`)
	b.await(`!document.querySelector("#box").hidden`)
	b.picture("console-map"+suffix, 1440, 860)
}

// unfoldedPicture writes a picture of the map with logs of a thousand small segments and an
// unfolded block.
func unfoldedPicture(b *browser, c *cluster, records []*kgo.Record) {
	c.segment = "1Ki"
	c.limit("")
	c.produceWith([]kgo.Opt{kgo.ProducerBatchMaxBytes(1 << 10)}, records)
	b.size(1440, 900)
	b.visit(c.console + "map?topic=customers")
	b.await(idle + ` && document.querySelectorAll("a.b.folded").length > 300`)
	// Choose the block with the most garbage.
	b.js(`const garbage = (a) => +a.querySelector(".garbage").getAttribute("height");
		[...document.querySelectorAll('[data-row="1"] a.b.folded')].sort((x, y) =>
			garbage(y) - garbage(x))[0].dispatchEvent(
				new MouseEvent("click", {bubbles: true, cancelable: true}))`)
	b.await(opened + " > 1")
	for _, dark := range []bool{false, true} {
		b.pictureOf("console-unfolded"+b.palette(dark), eval[[]float64](b, `(() => {
			const r = document.querySelector("#map").getBoundingClientRect();
			return [r.left, r.top + scrollY, r.width, r.height]; })()`))
	}
}

// keysPicture writes a picture of the tab Keys with a key that has several records.
func keysPicture(b *browser, c *cluster, dark bool, key string) {
	suffix := b.palette(dark)
	b.size(1200, 640)
	b.visit(c.console + "topic?name=customers&tab=keys&key=" + key)
	b.picture("console-keys"+suffix, 1200, 640)
}

// story writes the five frames of docs/use/cleaner-pass.md from the replay of the pass with the most segments.
func story(t *testing.T, c *cluster, b *browser) {
	b.visit(c.console + "map?topic=customers")
	b.await(`document.querySelector("a.play")`)
	link := eval[string](b, `(() => { const size = (tr) => parseInt(tr.cells[9].innerText) * 100 +
			parseInt(tr.cells[9].innerText.split("/")[1]);
		const rows = [...document.querySelectorAll("tr")].filter((tr) => tr.querySelector("a.play"));
		rows.sort((x, y) => size(y) - size(x)); return rows[0].querySelector("a.play").href; })()`)
	b.visit(link)
	b.await(`!document.querySelector("#play").hidden`)
	b.js(`fetch(document.querySelector("#replay").dataset.frames).then((r) => r.json())
		.then((all) => { window.kinds = all.map((f) => f.kind); })`)
	b.await("window.kinds")
	kinds := eval[[]string](b, "window.kinds")
	steps := storySteps(kinds)
	b.size(1000, 480)
	for i, step := range steps {
		b.js(fmt.Sprintf(`const s = document.querySelector("input[type=range]");
			s.value = %d; s.dispatchEvent(new Event("input"));`, step))
		for _, dark := range []bool{false, true} {
			suffix := b.palette(dark)
			at := eval[[]float64](b, `(() => {
				const r = document.querySelector("#replay").getBoundingClientRect();
				return [r.left, r.top + scrollY, r.width, r.height]; })()`)
			b.pictureOf(fmt.Sprintf("story-%d%s", i+1, suffix), at)
		}
		t.Logf("frame %d: step %d, %s", i+1, step,
			eval[string](b, `document.querySelector("#caption").innerText`))
	}
}

// storySteps returns the steps of the five frames: the announcement, the first group, a half-read
// segment, the last replacement, and the end.
func storySteps(kinds []string) []int {
	at := [5]int{0, -1, -1, -1, len(kinds) - 1}
	for i, kind := range kinds {
		switch {
		case kind == "group" && at[1] < 0:
			at[1] = i
		case kind == "replace":
			at[3] = i
		}
	}
	reads := []int{}
	for i, kind := range kinds {
		if kind == "read" && i > at[1] {
			reads = append(reads, i)
		}
	}
	if len(reads) > 0 {
		at[2] = reads[len(reads)/2]
	}
	return at[:]
}

// pictureOf writes a picture of a part of the page. The argument at is left, top, width and height.
func (b *browser) pictureOf(name string, at []float64) {
	b.t.Helper()
	content := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{
		X: math.Max(0, at[0]-4), Y: math.Max(0, at[1]-4), Width: at[2] + 8, Height: at[3] + 8,
		Scale: 1}}).Data
	b.write(name, content)
}

// write writes a picture.
func (b *browser) write(name string, content []byte) {
	b.t.Helper()
	if len(content) > pictureMax {
		b.t.Errorf("%s has %d bytes, the limit is %d", name, len(content), pictureMax)
	}
	if err := os.MkdirAll(picturesDir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(picturesDir, name+".png"), content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
