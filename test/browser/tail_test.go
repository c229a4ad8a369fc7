package browser

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// tailFollows checks that an open page shows appended records as text, and marks the records that
// they supersede. While the page is paused or hidden, it has no stream. It still misses no record.
func tailFollows(t *testing.T, c *cluster, b *browser) {
	order := func(key, value string) {
		t.Helper()
		c.produce(&kgo.Record{Topic: "orders", Key: []byte(key), Value: []byte(value)})
	}
	has := func(text string) string {
		return `document.querySelector("table.messages").innerText.includes(` + quote(text) + `)`
	}
	state := func(name string) {
		t.Helper()
		b.await(`document.querySelector("#live").dataset.state === ` + quote(name))
	}
	page := c.console + "topic?name=orders&tab=messages&position=tail"
	order("O-1", "before the page")
	b.visit(page)
	b.await(has("before the page"))
	state("live")
	order("O-1", hostile)
	b.await(`document.querySelector("table.messages tr.superseded")?.innerText.includes("before") &&
		document.querySelector("tr.superseded .tag").innerText === "superseded"`)
	b.await(has("<script>window.stolen") + ` && !("stolen" in window) &&
		document.querySelector("main script, main img") === null`)

	b.click("#pause")
	state("still")
	order("O-2", "while paused")
	b.click("#pause")
	b.await(has("while paused"))
	hide := func(hidden string) {
		b.js(`Object.defineProperty(document, "hidden", {value: ` + hidden + `, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"))`)
	}
	hide("true")
	state("still")
	order("O-2", "while hidden")
	hide("false")
	b.await(has("while hidden"))
	b.await(`document.querySelector("#tail").innerText.includes("found 3")`)

	b.visit(page + "&latest=1&key=L-")
	state("live")
	order("L-1", "first")
	b.await(has("first"))
	order("M-1", "another key")
	order("L-1", "second")
	b.await(has("second") + " && !(" + has("first") + ")")
	if eval[bool](b, has("another key")) {
		t.Error("the tail shows a record that the filter excludes")
	}

	call(b, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	defer call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	b.visit(page)
	order("O-3", "without scripts")
	await.For(t, func() string {
		if text := b.text("main"); !strings.Contains(text, "without scripts") {
			return "the page does not load again: " + text
		}
		return ""
	})
}

// tooManyTails checks a page beyond the limit of live pages. It says why it is not live, and
// becomes live when another page is closed.
func tooManyTails(t *testing.T, c *cluster, b *browser) {
	var streams []io.Closer
	defer func() {
		for _, of := range streams {
			_ = of.Close()
		}
	}()
	for range 9 {
		response, err := http.Get(c.console + "tail?name=orders")
		if err != nil {
			t.Fatal(err)
		}
		if streams = append(streams, response.Body); response.StatusCode != http.StatusOK {
			break
		}
	}
	if len(streams) != 9 {
		t.Fatalf("the console refused stream %d", len(streams))
	}
	b.visit(c.console + "topic?name=orders&tab=messages&position=tail")
	b.await(`!document.querySelector("#missing").hidden &&
		document.querySelector("#missing").innerText.includes("too many pages follow topics")`)
	if text := b.text("#live"); text != "not live" {
		t.Errorf("the head says %q", text)
	}
	_ = streams[0].Close()
	b.await(`document.querySelector("#missing").hidden &&
		document.querySelector("#live").dataset.state === "live"`)
}
