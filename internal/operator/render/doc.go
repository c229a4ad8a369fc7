// Package render turns a LogCluster into the Kubernetes objects that make it run. It is pure: an
// object is a function of the LogCluster and of Settings alone, so that applying it again changes
// nothing. One file holds one object, and testdata holds each of them as YAML, the way a person
// would read it.
//
// What all objects share: they live in the LogCluster's namespace, carry the labels of Labels, and
// say apiVersion and kind themselves, as server-side apply wants it. Owner references are the
// caller's affair.
//
// Names are part of the contract with the brokers (internal/metadata/kube) and with users; see
// names.go.
package render
