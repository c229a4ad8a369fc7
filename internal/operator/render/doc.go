// Package render renders the Kubernetes objects that run a LogCluster. It is pure: each object
// depends only on the LogCluster and on Settings, so applying an object again changes nothing.
// There is one source file per object, and testdata contains golden files of all objects as YAML.
//
// All objects are in the LogCluster's namespace, have the labels of Labels, and set apiVersion and
// kind, which server-side apply requires. The caller sets owner references.
//
// Brokers (internal/metadata/kube) and users depend on the objects' names; see names.go.
package render
