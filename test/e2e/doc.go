// Package e2e tests Heartwood on a real Kubernetes cluster: the chart, the operator, brokers in
// pods with volumes, and a client in a pod.
//
// It runs with the build tag e2e against the cluster in KUBECONFIG. It requires kubectl in the
// PATH. The environment variables IMAGE and CLIENT_IMAGE name images that the nodes have or can
// pull. The test creates a namespace and deletes it at the end. It also deletes the CRDs if it has
// installed them. Steps use the LogCluster and the Topics of the samples, and revert their changes
// of these. After a failed step, the run continues with the next step. To run a single step:
//
//	make e2e E2E_RUN=TestHeartwoodOnKubernetes/the_network_fails_in_part
//
// A run writes the measurements of its steps to docs/internals/bench/results/e2e.md.
//
// FAULTS is the path of a script that stops and starts nodes and the API server, such as
// hack/e2e-faults.sh. If it is unset, the steps that need the script are skipped. LATER_IMAGE names
// an image of a later version. If it is unset, the steps that update brokers to this version and
// back are skipped. Such an image can be built from the same source with another format level:
//
//	make image IMAGE=NAME LDFLAGS="-X heartwood.dev/heartwood/internal/version.formatLevel=2"
//
// DIST is a directory that make release has written. If it is unset, the steps that install the
// packed chart and install.yaml are skipped. PREVIOUS_IMAGE names an image of the last release in
// hack/releases (make previous). If there is a release and PREVIOUS_IMAGE is unset, the step that
// updates its brokers to this version and back is skipped.
//
// At its end, the run prints the skipped steps and parts of steps: "SKIPPED SCENARIOS: ...". It
// fails if any were skipped, unless E2E_PARTIAL=1 is set. Three steps may always be skipped: the
// growth of volumes, if the default StorageClass cannot expand them, the thousand partitions, and
// the update of the last release, until there is a release.
//
// HEARTWOOD_E2E_KEEP=1 keeps all resources for inspection. HEARTWOOD_E2E_MANY=1 adds the step with
// a thousand partitions; a larger number is the number of partitions.
package e2e
