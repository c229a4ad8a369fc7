// Package kube is a broker's metadata store on Kubernetes. It builds metadata images from Topics,
// PartitionSets and broker Leases, and reports the partitions that this broker leads and serves. It
// makes no decisions: the operator assigns replicas and elects leaders.
//
//   - image.go, sets.go, liveness.go: pure code that builds an image from resources and Leases.
//   - store.go, coalesce.go: Run, the watches, and the decision about when to build an image.
//   - lease.go: this broker's own Lease, which a separate goroutine renews.
//   - serving.go, isr.go: changes of the state of partitions that this broker leads: whether it
//     serves them, their ISR, and a later leader epoch that its log contains. commit_api.go
//     connects package partitionset/commit, which writes all changes of a PartitionSet in one
//     compare-and-swap.
//   - admin.go, alter.go, move.go: requests of Kafka's admin clients to create, delete and change
//     topics, to reassign partitions and elect leaders, and to change settings of the LogCluster.
//   - users.go: requests about ACLs and passwords. security.go and secrets.go: rights and
//     passwords, read from LogUsers and the Secrets with verifiers.
//   - no_retry.go, retry_dial.go: which requests the HTTP clients repeat.
//
// A broker needs only these permissions, in its namespace (internal/operator/render contains the
// Role):
//
//	heartwood.dev        logclusters, topics, partitionsets, get list watch
//	                     logusers
//	                     secrets                             get list watch: those that the Role
//	                                                         names
//	heartwood.dev        logusers                            create patch
//	heartwood.dev        logclusters                         patch its own
//	heartwood.dev        topics                              create delete patch
//	heartwood.dev        partitionsets                       update
//	heartwood.dev        partitionsets/status                get update
//	coordination.k8s.io  leases                              get list watch create; update: those
//	                                                         of its cluster
//
// A broker is alive while its Lease is observed to be renewed (internal/lease). While this broker
// cannot reach the API server, it expires no Lease and continues to serve from the last image.
//
// The image names a partition's leader only while the elected broker epoch is alive. A broker that
// was killed and returns is still named as leader in the PartitionSet, with its earlier broker
// epoch. It waits until the operator elects it again. The new leader epoch then shows clients that
// unsynced records may be lost.
//
// Run starts the watches (controller-runtime's cache) and a goroutine that renews the Lease. The
// goroutine of Run itself is the only one that builds images and calls apply; event handlers only
// set flags. All goroutines have ended when Run returns.
package kube
