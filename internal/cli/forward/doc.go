// Package forward connects to ports of pods through the API server, as kubectl port-forward does,
// but without a local port that other users of the machine could reach.
//
// Pods keeps one connection to the API server for each pod. Every Dial opens two streams in it: one
// for the data, and one on which the kubelet reports an error, such as a port on which nothing
// listens. WebSockets carry the streams or, if the API server or a proxy refuses them, SPDY.
//
// Pods is safe for concurrent use. Its lock is not held during I/O. Each connection that Dial
// returns has three goroutines, which end when the connection is closed by either side. Close ends
// all of them, except a request to the API server that has not been answered: client-go cannot
// cancel it, so its goroutine closes the connection when the answer arrives.
package forward
