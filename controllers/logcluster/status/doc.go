// Package status contains the controller that writes LogCluster.status. There is one function for
// each condition and part of the status.
package status
