// Package browser tests the web console in a real browser: headless Chromium, driven by chromedp,
// against the built binary with `heartwood dev --processes`. `make browser` runs it. It is a module
// of its own, so that the browser's protocol is no dependency of Heartwood.
//
// The tests need Debian's package chromium, or any Chromium or Chrome that chromedp finds:
//
//	apt-get install --no-install-recommends chromium
//
// Without a browser they are skipped, and say so. The check of accessibility needs the script of
// npm's axe-core, which `make browser` fetches; its path is in the environment variable AXE.
//
// TestLogin also runs etcd and kube-apiserver, which hack/kubetools builds; their directory is in
// the environment variable KUBEBUILDER_ASSETS.
//
// With PICTURES=1 the tests also write the pictures of docs/console.md and docs/story.md.
package browser
