// Package kube connects a console to Kubernetes.
//
// An Authority sends requests to the API server only with the user's token, never with the
// console's ServiceAccount or a client certificate. So users cannot use rights of the console that
// they do not have themselves. The token is sent only to the API server, never to a broker.
//
// For a console with a single user, Rights uses the user's kubeconfig instead.
//
// Clusters lists LogClusters and connects to their brokers with the rights of the console's own
// ServiceAccount: it reads LogClusters and the Secrets that its Role names, and creates tokens for
// this ServiceAccount to authenticate to the brokers. The console checks a user's rights before it
// uses a connection for the user.
package kube
