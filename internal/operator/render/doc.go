// Package render renders the Kubernetes objects that run a LogCluster. It is pure: an object
// depends on the LogCluster and on Settings only, so applying it again changes nothing. Each object
// has a file, and testdata contains each of them as YAML.
//
// All objects are in the LogCluster's namespace, have the labels of Labels, and set apiVersion and
// kind, which server-side apply requires. The caller sets owner references.
//
// Names are part of the contract with brokers (internal/metadata/kube) and users; see names.go.
package render
