// Package e2e tests Heartwood on a real Kubernetes cluster: the chart, the operator, brokers in
// pods with volumes, and a client in a pod.
//
// It runs with the build tag e2e against the cluster of KUBECONFIG. It requires kubectl on the
// PATH. The environment variables IMAGE and CLIENT_IMAGE name images that the nodes have or can
// pull. The test creates a namespace and deletes it at the end, and also the CRDs if it has
// installed them. Steps use the LogCluster and the Topics of the samples, and restore what they
// change there. After a failed step the run continues with the next one. One step runs alone by
//
//	make e2e E2E_RUN=TestHeartwoodOnKubernetes/the_network_fails_in_part
//
// A run writes what its steps measured to docs/bench/results/e2e.md.
//
// FAULTS is the path of a script that stops and starts nodes and the API server, such as
// hack/e2e-faults.sh. If it is unset, the steps that need the script are skipped.
// LATER_IMAGE names an image of a later version; the steps that update brokers to it and back are
// skipped without it. An image with another format level, from the same source, is one:
//
//	make image IMAGE=NAME LDFLAGS="-X heartwood.dev/heartwood/internal/version.formatLevel=2"
//
// At its end the run prints the steps, and the parts of steps, that were skipped: "SKIPPED
// SCENARIOS: ...". It fails because of them, unless E2E_PARTIAL=1 is set. Two steps may always be
// skipped: the growth of volumes, if the default StorageClass cannot expand them, and the thousand
// partitions.
//
// HEARTWOOD_E2E_KEEP=1 keeps all resources for inspection. HEARTWOOD_E2E_MANY=1 adds the step with
// a thousand partitions; a larger number is the number of partitions.
package e2e
