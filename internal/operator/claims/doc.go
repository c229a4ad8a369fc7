// Package claims decides what happens to the volume claims of a LogCluster's brokers when
// spec.storage changes. It is pure.
//
// A claim that requests less than spec.storage.size is expanded, if its StorageClass allows it. A
// claim that requests more is left as it is, because volumes cannot shrink, and because a claim
// that a user has enlarged must not block other changes. The package also describes the state of
// all claims for condition StorageResized.
package claims
