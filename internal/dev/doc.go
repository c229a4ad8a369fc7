// Package dev runs a development cluster in one process, from the same manifests as kubectl.
//
//   - options.go: options and their validation.
//   - state.go: the state that manifests and flags request, and applying it to the metadata store.
//     Flags override manifests.
//   - watch.go: detects changes of manifests.
//   - lines.go: the lines on standard output.
//   - dev.go: Run, and the order of start and stop.
//   - processes.go, child.go: with --processes, one process per broker: the parent's side, and the
//     child's.
//   - brokers.go: the brokers of this process, and their supervision.
//
// Start: validate the manifests, lock the data directory, open and sync the metadata, start HTTP,
// recover and start the brokers, print the ready line. Stop is the reverse. No topic is changed
// before all manifests and flags have been validated.
//
// While the cluster runs, a manifest that cannot be applied is reported once and has no effect. At
// the start it is an error.
//
// Goroutines: one per broker (its Run), one that supervises them, one that stops them, the HTTP
// server, and the watcher. Run joins all of them, and applies manifests in its own goroutine.
package dev
