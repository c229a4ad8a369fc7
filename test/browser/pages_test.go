package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// hostile is a key and a value that would change a page that shows it as HTML.
const hostile = `<script>window.stolen = 1</script><img src=x onerror="window.stolen = 1">` +
	"\x00\x1b[2J\u202e"

// hostileRecords: keys, values and headers are text, whatever they contain.
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
	b.visit(c.console + "topic?name=orders&tab=messages&key=" + url.QueryEscape(hostile))
	if eval[bool](b, `"stolen" in window`) {
		t.Error("the filter has become HTML")
	}
}

// worksBehindProxies opens the console below other paths: of a proxy that removes the prefix, as an
// Ingress with a rewrite and kubectl proxy do.
func worksBehindProxies(t *testing.T, c *cluster, b *browser) {
	target, err := url.Parse(strings.TrimSuffix(c.console, "/console/"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.StripPrefix("/team/a", proxy))
	t.Cleanup(func() {
		b.visit("about:blank") // ends the stream of updates, for which Close would wait
		server.Close()
	})
	root := server.URL + "/team/a/console"
	b.visit(root) // leads to console/
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

// visited are the pages that the tests of accessibility open.
var visited = []string{"", "topics", "map?topic=customers", "map?topic=customers&replicas=1",
	"topic?name=customers&tab=messages", "topic?name=customers&tab=replicas",
	"topic?name=customers&tab=settings", "topic?name=customers&tab=groups", "groups", "brokers",
	"clean?topic=customers", "unknown"}

// accessibility checks each page, light and dark, by axe-core.
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
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		for _, path := range pages {
			b.visit(c.console + path)
			b.js(string(script))
			findings := checkAccess(b)
			for _, f := range findings {
				t.Errorf("dark %t, %q: %s", dark, path, f)
			}
		}
	}
	b.dark(false)
}

// checkAccess returns the findings of axe-core, one line each.
func checkAccess(b *browser) []string {
	b.js(`window.findings = undefined; axe.run().then((r) => window.findings =
		r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target + " " +
			n.failureSummary.replace(/\s+/g, " ")).slice(0, 3).join("; "))); 0`)
	b.await("window.findings !== undefined")
	return eval[[]string](b, "window.findings")
}
