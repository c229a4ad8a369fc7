// Package access decides who may use the HTTP port of a broker whose LogCluster is secured.
//
//   - /healthz and /readyz are open to everyone, without detail, for the probes of the kubelet.
//   - A client with a certificate from the peer CA may do everything. Only brokers and the operator
//     have such certificates.
//   - Other clients send a token of a ServiceAccount ("Authorization: Bearer <token>"). The broker
//     verifies the token with the API server's public keys, without a request (package tokens).
//     Then the API server decides whether the ServiceAccount has the right: a verb on a subresource
//     of the LogCluster (rightOf). Decisions are cached for cacheTTL.
//
// Every other path needs a right, even a path that does not exist. The memory is bounded: the cache
// has at most cacheMax entries, only verified tokens cause requests to the API server, and one
// client address can open at most addressConnectionsMax connections (Limit).
//
// A Gate is safe for concurrent use. Its lock is not held during requests to the API server.
package access
