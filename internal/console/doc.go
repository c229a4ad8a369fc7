// Package console serves the web console: pages that show what the cleaner does, and what topics,
// consumer groups and brokers contain.
//
// One handler serves `heartwood dev` (below /console/), `heartwood console` and the chart's
// Deployment. Each page is HTML that works without scripts; the scripts in web/ (bundled into
// assets/ by `make generate`) add live updates and the keyboard.
//
// All pages have paths of one segment, such as topics or map?topic=NAME, and all links are
// relative. So the console works below any path: behind kubectl port-forward, the API server's
// service proxy, and an Ingress that removes the prefix or keeps it.
//
//   - console.go: options, routes, rendering.
//   - guard.go: which requests are refused, and the headers of every response.
//   - access.go: the rights of users. reviews.go: cached decisions of Kubernetes. login.go: the
//     login page. site.go: the consoles of several LogClusters.
//   - view.go: the data that all pages have in common. format.go: numbers, sizes and times as text.
//   - watch.go: keeps the map of a topic up to date while it has viewers, by the brokers' events.
//     frame.go: the map at one moment. map.go, segment.go, replay.go, clean.go: its pages. live.go:
//     the stream of updates to a page.
//   - tail.go: the stream of new records to the tab Messages.
//   - unfold.go: what a page shows of the map, and its URL. labels.go: the labels below blocks.
//   - action.go: pages with a form that changes something: produce.go, offsets.go, transactions.go.
//     sorting.go: the order of tables. record.go, download.go: one record, and many as a file.
//   - overview.go, topics.go, topic.go, messages.go, keys.go, groups.go, brokers.go: one page or
//     tab each, with a template of the same name in templates/ or topic.html.
//
// Reports on the cleaner come from the brokers' HTTP ports (internal/remote). Messages, groups,
// settings and disks come by the Kafka protocol (internal/console/kafka), so that the
// authorization of the listeners applies to them.
//
// The console makes only changes that users request: users of the same machine or, with an
// Authority, users that have the right. Package kube implements Authority by the API server. The
// console sends requests to clean with the token of the user, and all other requests with its own
// credentials (ADR 0340).
//
// Each watched topic has one goroutine that polls the brokers' reports and, for each broker, one
// that reads its events, independently of the number of pages that show the topic. The goroutines
// end 10 s after the last page is closed, and Close joins them. The lock of watches is taken before
// the lock of a watch. Invariants:
//
//   - Every request has a bound: time, bytes read, and concurrent browses.
//   - Bytes of records reach the page only as text nodes, by html/template.
//   - No page contains inline scripts or styles; the Content-Security-Policy forbids them.
package console
