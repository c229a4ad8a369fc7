// Package outcome contains the result of the last reconciliation of a LogCluster, and the
// conditions Applied, StorageResized and RollingOut that follow from it.
package outcome
