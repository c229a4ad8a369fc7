package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hostile is a key and a value that would change a page if the page showed them as HTML.
const hostile = `<script>window.stolen = 1</script><img src=x onerror="window.stolen = 1">` +
	"\x00\x1b[2J\u202e"

// hostileRecords checks that keys, values and headers are shown as text, whatever they contain.
func hostileRecords(t *testing.T, c *cluster, b *browser) {
	c.produce(&kgo.Record{Topic: "orders", Key: []byte(hostile), Value: []byte(hostile),
		Headers: []kgo.RecordHeader{{Key: hostile, Value: []byte(hostile)}}},
		&kgo.Record{Topic: "orders", Key: []byte("\xff\xfe"), Value: []byte("\x80\x81")})
	b.visit(c.console + "topic?name=orders&tab=messages")
	text := eval[string](b, `document.querySelector("table.messages").innerText`)
	if !strings.Contains(text, "<script>window.stolen") || !strings.Contains(text, "ff fe") {
		t.Errorf("the records are shown as %q", text)
	}
	if strings.ContainsAny(text, "\x00\x1b\u202e") {
		t.Errorf("control characters are shown: %q", text)
	}
	if eval[bool](b, `"stolen" in window || document.querySelector("main script, main img") !== null`) {
		t.Error("a record has become HTML")
	}
	links := eval[[]string](b, `[...document.querySelectorAll('a[href*="tab=keys"]')]
		.filter((a) => a.closest("table")).map((a) => a.href)`)
	if len(links) != 2 {
		t.Errorf("got %d links to records of a key, want 2", len(links))
	}
	for _, page := range append(links, c.console+"topic?name=orders&tab=messages&key="+
		url.QueryEscape(hostile)) {
		b.visit(page)
		if got := b.text("main"); !strings.Contains(got, "<script>window.stolen") &&
			!strings.Contains(got, "80 81") || strings.Contains(page, "tab=keys") &&
			!strings.Contains(got, "live") {
			t.Errorf("%s lacks the record: %q", page, got)
		}
		if eval[bool](b, `"stolen" in window || document.querySelector("main script, main img") !== null`) {
			t.Errorf("%s has a record or the filter as HTML", page)
		}
	}
}

// focus presses Tab until an element has the focus.
func (b *browser) focus(selector string) {
	b.t.Helper()
	for range 200 {
		b.key(kb.Tab)
		if eval[bool](b, `document.activeElement.matches(`+quote(selector)+`)`) {
			if eval[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "none"`) {
				b.t.Errorf("the focus on %s is not visible", selector)
			}
			return
		}
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

// keyboardOnly finds a record by its key without a pointer, starting on the first page.
func keyboardOnly(_ *testing.T, c *cluster, b *browser) {
	b.visit(c.console)
	follow := func(selector, arrived string) {
		b.t.Helper()
		b.focus(selector)
		b.key(kb.Enter)
		b.await(arrived + ` && document.readyState === "complete"`)
	}
	b.focus("a.skip")
	follow(`nav a[href="topics"]`, `location.pathname.endsWith("/topics")`)
	follow(`th a[href="topic?name=customers"]`, `location.search === "?name=customers"`)
	follow(`nav.tabs a[href*="tab=keys"]`, `location.search.includes("tab=keys")`)
	b.key("/")
	b.await(`document.activeElement.name === "key"`)
	b.key(kb.Backspace) // the protocol types the letter although the page prevents it
	b.await(`document.activeElement.value === ""`)
	for _, letter := range "C-000001" {
		b.key(string(letter))
	}
	b.key(kb.Enter)
	b.await(`location.search.includes("key=C-000001") &&
		document.querySelector("main")?.innerText.includes("The search was complete")`)
	follow(`table.messages th a`, `location.pathname.endsWith("/message")`)
	b.await(`document.querySelector("h1").innerText.includes("of customers-")`)
}

// worksBehindProxies opens the console through proxies that remove a path prefix, like an Ingress
// with a rewrite and like kubectl proxy.
func worksBehindProxies(t *testing.T, c *cluster, b *browser) {
	target, err := url.Parse(strings.TrimSuffix(c.console, "/console/"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.StripPrefix("/team/a", proxy))
	t.Cleanup(func() {
		b.visit("about:blank") // ends the stream of updates; otherwise Close would wait for it
		server.Close()
	})
	root := server.URL + "/team/a/console"
	b.visit(root) // redirects to console/
	if got := eval[string](b, `location.pathname`); got != "/team/a/console/" {
		t.Errorf("the root leads to %s", got)
	}
	b.click(`nav a[href="map"]`)
	b.await(`location.pathname === "/team/a/console/map" && document.querySelector("a.b")`)
	b.await(`document.querySelector("#live").dataset.state === "live"`)
	b.await(`getComputedStyle(document.querySelector("nav a")).display === "inline-block"`)
	b.js(`document.querySelector("a.b").dispatchEvent(
		new PointerEvent("pointerover", {bubbles: true}))`)
	b.await(`!document.querySelector("#box").hidden`)
	if links := eval[int](b, `[...document.links].filter((a) => !new URL(a.href).pathname.startsWith("/team/a/console/")).length`); links > 0 {
		t.Errorf("%d links lead out of the console", links)
	}
}

// visited are the pages that the accessibility tests open.
var visited = []string{"", "topics", "map?topic=customers", "map?topic=customers&replicas=1",
	"topic?name=customers&tab=messages", "topic?name=customers&tab=replicas",
	"topic?name=customers&position=tail", "topic?name=customers&tab=settings", "topic?name=customers&tab=groups", "groups", "brokers",
	"topic?name=customers&tab=keys", "topic?name=customers&tab=keys&key=C-000001&partition=all",
	"clean?topic=customers", "users", "transactions", "transaction?id=payments",
	"abort?id=payments", "produce?topic=customers", "offsets?group=readers&to=latest",
	"deletegroup?group=readers", "group?name=readers", "unknown", "un/known/path", "topics?sort=-size&internal=1",
	"message?topic=customers&partition=0&offset=100000&go=previous"}

// accessibility checks each page with axe-core, in the light and the dark palette.
func accessibility(t *testing.T, c *cluster, b *browser) {
	script, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Skipf("SKIPPED: the environment variable AXE names no axe.min.js: %v", err)
	}
	pages := append([]string{}, visited...)
	b.visit(c.console + "map?topic=customers")
	b.await(`document.querySelector("a.play")`)
	for _, link := range []string{"a.play", "a.b"} {
		href := eval[string](b, `document.querySelector(`+quote(link)+`).getAttribute("href")`)
		pages = append(pages, href)
	}
	for i, path := range pages {
		pages[i] = c.console + path
	}
	// The golden pages have states that the cluster does not have, such as the login page and
	// failures.
	golden := httptest.NewServer(goldenPages())
	defer golden.Close()
	names, err := filepath.Glob(filepath.Join(consoleDir, "testdata", "golden", "*.html"))
	if err != nil || len(names) == 0 {
		t.Fatalf("found no golden pages: %v", err)
	}
	for _, name := range names {
		pages = append(pages, golden.URL+"/"+filepath.Base(name))
	}
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		for _, page := range pages {
			b.visit(page)
			b.await(`getComputedStyle(document.body).margin === "0px"`) // the style sheet is loaded
			b.js(string(script))
			for _, f := range checkAccess(b) {
				t.Errorf("dark %t, %s: %s", dark, page, f)
			}
		}
	}
	b.dark(false)
}

// consoleDir is the directory of the console's package.
const consoleDir = "../../internal/console"

// goldenPages serves the golden files of the console's pages, with the console's assets.
func goldenPages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(consoleDir, "testdata", "golden"))))
	mux.Handle("/assets/", http.FileServer(http.Dir(consoleDir)))
	return mux
}

// checkAccess returns axe-core's findings, one per line.
func checkAccess(b *browser) []string {
	b.js(`window.findings = undefined; axe.run().then((r) => window.findings =
		r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target + " " +
			n.failureSummary.replace(/\s+/g, " ")).slice(0, 3).join("; "))); 0`)
	b.await("window.findings !== undefined")
	return eval[[]string](b, "window.findings")
}
