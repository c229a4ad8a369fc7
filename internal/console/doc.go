// Package console serves the web console. Its pages show the cleaner's work and the contents of
// topics, consumer groups and brokers.
//
// One handler serves `heartwood dev` (below /console/), `heartwood console` and the chart's
// Deployment. Each page is HTML that works without scripts; the scripts in web/ (bundled into
// assets/ by `make generate`) add live updates and the keyboard.
//
// All pages have paths of one segment, such as topics or map?topic=NAME, and all links are
// relative. So the console works below any path: behind kubectl port-forward, the API server's
// service proxy, or an Ingress that keeps or removes the prefix.
//
//   - console.go: options, routes, and rendering.
//   - guard.go: which requests are refused, and the headers of every response.
//   - access.go: the rights of users. reviews.go: cached decisions of Kubernetes. login.go: the
//     login page. site.go: the consoles of several LogClusters.
//   - view.go: the data that all pages have in common. format.go: numbers, sizes and times as text.
//   - watch.go: keeps a topic's map up to date from the brokers' events while the map has viewers.
//     frame.go: the map at one moment. map.go, segment.go, replay.go, clean.go: its pages. live.go:
//     the stream of updates to a page.
//   - tail.go: the stream of new records to the tab Messages.
//   - unfold.go: which part of the map a page shows, and its URL. labels.go: the labels below
//     blocks.
//   - action.go: pages with a form that changes something: produce.go, offsets.go, transactions.go.
//     sorting.go: the order of tables. record.go, download.go: one record, and many as a file.
//   - overview.go, topics.go, topic.go, messages.go, keys.go, groups.go, brokers.go: one page or
//     tab each. Its template is templates/NAME.html, or a part of topic.html.
//
// Reports on the cleaner come from the brokers' HTTP ports (internal/remote). Messages, groups,
// settings and disks are read over the Kafka protocol (internal/console/kafka), so the listeners'
// authorization applies to them.
//
// The console makes only changes that are requested by users of the same machine or, with an
// Authority, by users with the required right. Package kube implements Authority with the API
// server. The console sends requests to clean with the user's token, and all other requests with
// its own credentials (ADR 0340).
//
// Each watched topic has one goroutine that polls the brokers' reports, and one goroutine per
// broker that reads the broker's events. Their number does not depend on how many pages show the
// topic. They end 10 s after the last page is closed, and Close waits for them. The lock of watches
// is acquired before the lock of a watch. Invariants:
//
//   - Every request has a bound: time, bytes read, and concurrent browses.
//   - Bytes of records appear on a page only as text nodes, which html/template escapes.
//   - No page contains inline scripts or styles; the Content-Security-Policy forbids them.
package console
