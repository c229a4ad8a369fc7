// Package kube connects a console to Kubernetes.
//
// An Authority sends requests to the API server only with the user's token, never with the
// console's ServiceAccount or a client certificate. So users cannot use rights that only the
// console has. The token is sent only to the API server, never to a broker.
//
// Rights uses a kubeconfig instead, for a console with a single user.
//
// Clusters lists LogClusters and connects to their brokers with the rights of the console's own
// ServiceAccount: it reads LogClusters and the Secrets that its Role names, and creates tokens for
// this ServiceAccount to authenticate to the brokers. The console reviews a user's rights before it
// uses a connection for the user.
package kube
