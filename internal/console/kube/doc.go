// Package kube connects a console to Kubernetes.
//
// An Authority asks the API server with the token of a user, and with nothing else: neither the
// ServiceAccount of the console nor a client certificate is part of its requests. So the console
// has no rights that a user could borrow. A token is sent to the API server only, never to a
// broker.
//
// Rights asks with a kubeconfig instead, for a console of one user.
//
// Clusters lists LogClusters and connects to their brokers with the rights of the console's own
// ServiceAccount: it reads LogClusters, the Secrets that its Role names, and creates tokens of this
// ServiceAccount for the brokers. The rights of users are reviewed before a connection is used.
package kube
