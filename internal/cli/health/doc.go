// Package health determines from the resources of a LogCluster what is wrong with it, and what to
// do next. kubectl heartwood status prints the findings.
//
// The package is pure. Its input is what the operator has written to the resources' status, and the
// state of the pods. It never contradicts the operator: if there is a condition, the finding's
// message is the condition's message.
package health
