// Package outcome contains the result of a LogCluster's last reconciliation, and derives the
// conditions Applied, StorageResized and RollingOut from it.
package outcome
