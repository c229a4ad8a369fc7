// Package e2e tests Heartwood on a real Kubernetes cluster: the chart, the operator, brokers in
// pods with volumes, and a client in a pod.
//
// It runs with the build tag e2e against the cluster of KUBECONFIG. It requires kubectl on the PATH
// and the images IMAGE and CLIENT_IMAGE, which the nodes have or can pull. It creates a namespace
// and deletes it, and the CRDs if it has installed them. The steps depend on one another and run in
// order.
//
// FAULTS is the path of a script that stops and starts nodes and the API server, such as
// hack/e2e-faults.sh; without it the steps that need it are skipped. HEARTWOOD_E2E_KEEP=1 keeps
// everything for inspection. HEARTWOOD_E2E_MANY=1 adds the step with a thousand partitions.
package e2e
