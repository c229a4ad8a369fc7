// Package watch contains helpers for triggering controllers by events: it builds controllers,
// selects and coalesces events, and maps objects to their Topic or LogCluster.
package watch
