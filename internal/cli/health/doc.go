// Package health decides from the resources of a LogCluster what is wrong with it, and what to do
// next. kubectl heartwood status prints the findings.
//
// The package is pure: it reads what the operator has written to the status of the resources, and
// the state of pods. It never contradicts the operator: a message is that of a condition wherever
// there is one.
package health
