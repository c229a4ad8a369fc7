// Package watch contains helpers with which events trigger controllers: it builds controllers,
// selects and coalesces events, and maps objects to their Topic or LogCluster.
package watch
