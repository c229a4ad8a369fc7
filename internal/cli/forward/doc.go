// Package forward connects to ports of pods through the API server, as kubectl port-forward does,
// but without a local port that other users of the machine could connect to.
//
// Pods keeps one connection to the API server for each pod. Every Dial opens two streams in that
// connection: one for the data, and one on which the kubelet reports errors, for example if nothing
// listens on the port. The protocol is WebSocket or, if the API server or a proxy refuses that,
// SPDY.
//
// Pods is safe for concurrent use. Its lock is not held during I/O. Each connection that Dial
// returns has three goroutines, which end when the connection is closed by either side. Close ends
// all goroutines except those that wait for a response of the API server: client-go cannot cancel
// such a request, so the goroutine closes the connection when the response arrives.
package forward
