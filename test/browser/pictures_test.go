package browser

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
)

const (
	picturesDir = "../../docs/pictures"
	pictureMax  = 300 << 10 // bytes
)

// wanted reports whether pictures are written.
func wanted() bool { return os.Getenv("PICTURES") != "" }

// picture writes what the window shows.
func (b *browser) picture(name string, width, height int64) {
	b.t.Helper()
	b.size(width, height)
	content := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
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

// size sets the size of the window.
func (b *browser) size(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1})
}

// pictures writes the pictures of docs/console.md and docs/story.md that need no running pass.
func pictures(t *testing.T, c *cluster, b *browser) {
	if !wanted() {
		t.Skip("PICTURES is not set")
	}
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		suffix := ""
		if dark {
			suffix = "-dark"
		}
		b.visit(c.console)
		b.picture("console-overview"+suffix, 1200, 620)
		b.visit(c.console + "topic?name=customers&tab=messages&latest=1&limit=14")
		b.picture("console-messages"+suffix, 1200, 640)
	}
	b.dark(false)
	story(t, c, b)
}

// story writes the five frames of docs/story.md: the replay of the pass with the most segments.
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
	for i, step := range steps {
		b.js(fmt.Sprintf(`const s = document.querySelector("input[type=range]");
			s.value = %d; s.dispatchEvent(new Event("input"));`, step))
		b.size(1000, 480)
		at := eval[[]float64](b, `(() => { const r = document.querySelector("#replay").getBoundingClientRect();
			return [r.left, r.top + scrollY, r.width, r.height]; })()`)
		b.pictureOf(fmt.Sprintf("story-%d", i+1), at)
		t.Logf("frame %d: step %d, %s", i+1, step,
			eval[string](b, `document.querySelector("#caption").innerText`))
	}
}

// storySteps returns the steps of five frames: the announcement, the first group, a segment that is
// half read, the last replacement, and the end.
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

// pictureOf writes a part of the page: left, top, width and height.
func (b *browser) pictureOf(name string, at []float64) {
	b.t.Helper()
	content := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{
		X: math.Max(0, at[0]-4), Y: math.Max(0, at[1]-4), Width: at[2] + 8, Height: at[3] + 8,
		Scale: 1}}).Data
	if err := os.WriteFile(filepath.Join(picturesDir, name+".png"), content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// TestPictureOfPasses writes the pictures of the map while passes run.
func TestPictureOfPasses(t *testing.T) {
	if !wanted() {
		t.Skip("PICTURES is not set")
	}
	b := open(t)
	c := startCluster(t, "2Mi")
	for seed := range uint64(3) {
		c.produce(customers(60_000, seed)...)
	}
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		b.size(1440, 900)
		b.visit(c.console + "map?topic=customers")
		// A moment that shows everything: chosen, being read, garbage, dirty, blocked.
		b.await(`document.querySelector(".b.current") && document.querySelector(".b.chosen .garbage") &&
			document.querySelector(".b.dirty")`)
		name := strings.TrimSuffix("console-map-dark", map[bool]string{false: "-dark"}[dark])
		b.js(`document.querySelector(".b.current, .b.chosen").dispatchEvent(
			new PointerEvent("pointerover", {bubbles: true}))`)
		b.await(`!document.querySelector("#box").hidden`)
		b.picture(name, 1440, 860)
	}
}
