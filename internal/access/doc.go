// Package access decides who may use the HTTP port of a broker whose LogCluster is secured.
//
//   - /healthz and /readyz are open to everyone, without detail, for the probes of the kubelet.
//   - A client with a certificate of the peer CA, which brokers and the operator have, may do
//     everything.
//   - Other clients send a token of a ServiceAccount ("Authorization: Bearer <token>"). The keys
//     of the API server verify it without a request (package tokens). Then the API server decides
//     whether the ServiceAccount has the right: a verb on a subresource of the LogCluster
//     (rightOf). Decisions are cached for cacheTTL.
//
// Every path that is not open needs a right, also unknown ones. The memory is bounded: the cache
// has at most cacheMax entries, only verified tokens cause requests to the API server, and an
// address has at most addressConnectionsMax connections (Limit).
//
// A Gate is safe for concurrent use. It has one lock, which is not held during requests.
package access
