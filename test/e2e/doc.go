// Package e2e tests Heartwood on a real Kubernetes: the chart, the operator, brokers in pods with
// volumes, a client in a pod.
//
// It runs with the build tag e2e against the cluster of KUBECONFIG, with the images IMAGE and
// CLIENT_IMAGE, which its nodes have or can pull, and with kubectl on the PATH. It works in a
// namespace of its own, which it removes; the CRDs too, if it brought them. FAULTS names a script
// that stops and starts nodes and the API server (hack/e2e-faults.sh is one); without it the steps
// that need it are skipped. The steps build on one another and run in order; HEARTWOOD_E2E_KEEP=1
// leaves everything for a look, HEARTWOOD_E2E_MANY=1 adds the step with a thousand partitions.
package e2e
