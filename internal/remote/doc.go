// Package remote asks brokers over their HTTP port, for the commands `heartwood clean` and
// `heartwood topics`.
//
// A request to clean is taken by the broker that holds a replica. One broker is enough to begin
// with: it names the others, which are asked at the same port. Where their names do not resolve
// (outside of a Kubernetes cluster) they can be given by hand, or the annotation
// heartwood.dev/clean-now does the same through the API server.
package remote
