// Package scrubreport describes the state of a broker's scrub: for the HTTP port (row.go), and for
// the status of the LogCluster (status.go). It is pure.
package scrubreport
