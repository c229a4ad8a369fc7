package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"heartwood.dev/heartwood/test/kit/await"
)

// browser is a tab of headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // uncaught errors and violations of the Content-Security-Policy
}

// watchPolicy is a script that collects a page's violations of the Content-Security-Policy.
const watchPolicy = `window.violations = [];
addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + " " + e.blockedURI));`

// open starts a browser with a window of 1440 × 1000 pixels.
func open(t *testing.T) *browser {
	t.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			found = path
			break
		}
	}
	if found == "" {
		t.Skip("SKIPPED: no browser: apt-get install --no-install-recommends chromium")
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found),
			chromedp.NoSandbox, chromedp.WindowSize(1440, 1000),
			chromedp.Flag("lang", "en"), chromedp.Env("TZ=UTC"))...)
	t.Cleanup(cancel)
	b := &browser{t: t}
	b.ctx, cancel = chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(b.ctx); err != nil { // starts the browser
		t.Fatal(err)
	}
	if err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.faults = append(b.faults, e.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	// Without focus emulation, a page has no focus before the first key, and focus() causes no event.
	call(b, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	call(b, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: watchPolicy})
	return b
}

// call sends a command of the browser's protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Limit)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// value runs an action and returns its value; the test fails if it takes longer than await.Limit.
func value[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, await.Limit)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func (b *browser) click(selector string) { b.t.Helper(); value(b, chromedp.Click(selector)) }
func (b *browser) key(key string)        { b.t.Helper(); value(b, chromedp.KeyEvent(key)) }

func (b *browser) text(selector string) string {
	b.t.Helper()
	return value(b, chromedp.Text(selector))
}

// js runs statements in the page.
func (b *browser) js(statements string) {
	b.t.Helper()
	value(b, chromedp.Evaluate[bool]("(() => {"+statements+"})(), true"))
}

// visit opens a page.
func (b *browser) visit(url string) {
	b.t.Helper()
	value(b, chromedp.Navigate(url))
}

// eval returns the value of an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	return value(b, chromedp.Evaluate[T](expression))
}

// await waits until an expression in the page is true, and returns the waiting time. While the
// browser opens another page, the expression can fail, because its elements do not exist yet.
func (b *browser) await(expression string) time.Duration {
	b.t.Helper()
	began := time.Now()
	await.For(b.t, func() string {
		holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if holds && err == nil {
			return ""
		}
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		return fmt.Sprintf("not true: %s (%v)\nThe page: %.2000s", expression, err, text)
	})
	return time.Since(began)
}

// checkFaults fails the test if the page had errors or violated the Content-Security-Policy.
func (b *browser) checkFaults() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		b.t.Errorf("the page had errors: %s", strings.Join(b.faults, "; "))
	}
	violations, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string]("window.violations ?? []"))
	if err != nil {
		b.t.Error(err)
	}
	if len(violations) > 0 {
		b.t.Errorf("violations of the Content-Security-Policy: %v", violations)
	}
}

// dark sets the browser's preferred palette.
func (b *browser) dark(dark bool) {
	b.t.Helper()
	palette := "light"
	if dark {
		palette = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: palette},
			{Name: "prefers-reduced-motion", Value: "reduce"}}})
}

// quote returns text as a JavaScript literal.
func quote(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
