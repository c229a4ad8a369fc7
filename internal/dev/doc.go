// Package dev runs a whole cluster in one process, from the same manifests that kubectl takes.
//
//   - options.go: flags, checked before anything is touched.
//   - state.go: what the manifests say, applied to the metadata store. The manifests decide; flags
//     override.
//   - watch.go: tells when manifests may have changed.
//   - lines.go: what people and scripts read on standard output.
//   - dev.go: Run, the order of start and stop.
//   - processes.go, child.go: with --processes, a process for each broker: the parent's side, and
//     the child's.
//   - brokers.go: the brokers of this process, and what happens to them while they run.
//
// Start: manifests are checked, the data directory is locked, metadata is opened and synced, HTTP
// answers, brokers recover and serve, the ready line is printed. Stop is the reverse. No topic is
// touched before all manifests and flags were found good.
//
// While it runs, a manifest that cannot be applied is reported once and leaves things as they are.
// At the start it is an error.
//
// Goroutines: one a broker (its Run), one that governs them, one that stops them, the HTTP server,
// and the watcher; Run owns them all and joins them. Manifests are applied in Run's own.
package dev
