// Package scrubreport describes the state of a broker's scrub for the HTTP port (row.go) and for
// the LogCluster's status (status.go). It is pure.
package scrubreport
