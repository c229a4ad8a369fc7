// Package browser tests the web console in a real browser: headless Chromium, driven by chromedp,
// against the built binary with `heartwood dev --processes`. `make browser` runs it. The package
// has its own module, so the browser's protocol is no dependency of Heartwood.
//
// The tests need Debian's package chromium, or any Chromium or Chrome that chromedp finds:
//
//	apt-get install --no-install-recommends chromium
//
// Without a browser they are skipped with a message. The accessibility check needs the script of
// npm's axe-core, which `make browser` downloads. The environment variable AXE contains the
// script's path.
//
// TestLogin also runs etcd and kube-apiserver, which hack/kubetools builds. The environment
// variable KUBEBUILDER_ASSETS contains their directory.
//
// With PICTURES=1 the tests also write the pictures of docs/use/console.md and docs/use/cleaner-pass.md.
package browser
