// Package status contains the controller that writes LogCluster.status. Each condition and each
// part of the status has its own function.
package status
