// Package lint holds the rules of the house that no compiler checks: who may import whom, how long
// files and functions may be, that every package says what it is for, and that documents name only
// what is there. It is a test only; docs/architecture.md tells the why.
package lint
