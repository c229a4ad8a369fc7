// Package dev runs a development cluster in one process, from the same manifests that kubectl
// applies on Kubernetes.
//
//   - options.go: options and their validation.
//   - state.go: the state that manifests and flags request, and its application to the metadata
//     store. Flags override manifests.
//   - watch.go: detects changes of manifests.
//   - removals.go, kept.go, sources.go: decide when a resource is removed that the manifests no
//     longer contain. A missing or unreadable file removes nothing (ADR 0330).
//   - security.go: certificates of brokers and credentials of LogUsers, as files in the data
//     directory.
//   - secrets.go: files that replace the Secrets to which manifests refer.
//   - lines.go, announce.go: the lines on standard output.
//   - console.go: the web console below /console/ on the HTTP port.
//   - dev.go: Run, and the order of start and stop.
//   - processes.go, child.go: with --processes, each broker is a separate process. processes.go
//     runs in the parent process, child.go in the broker's process.
//   - brokers.go: the brokers of this process, and their supervision.
//
// Run starts in this order: it validates the manifests, locks the data directory, opens the
// metadata and applies the manifests to it, starts HTTP, recovers and starts the brokers, and
// prints the ready line. It stops in the reverse order. Run changes no topic before all manifests
// and flags have been validated.
//
// At the start, Run fails if a manifest cannot be applied. While the cluster runs, such a manifest
// is reported once and has no effect.
//
// Run starts one goroutine per broker, one that supervises the brokers, one that stops them, one
// for the HTTP server, and one for the watcher. All of them have ended when Run returns. Run
// applies manifests in its own goroutine.
package dev
