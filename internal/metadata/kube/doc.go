// Package kube is a broker's metadata store on Kubernetes. It builds metadata images from Topics,
// Partitions and broker Leases, and reports the partitions that this broker leads and serves. It
// makes no decisions: the operator assigns replicas and elects leaders.
//
//   - image.go, liveness.go: pure. They build an image from resources and Leases.
//   - store.go: Run, the watches, and when an image is built (coalesce.go).
//   - lease.go: this broker's own Lease, renewed by a goroutine of its own.
//   - serving.go, isr.go: write servingEpoch and isr of partitions that this broker leads, and
//     foundEpoch if its log knows a later leader epoch; own_writes.go serializes these writes.
//   - admin.go, alter.go: requests of Kafka's admin clients to create, delete and change topics and
//     to reassign partitions.
//   - no_retry.go, retry_dial.go: which requests the HTTP clients repeat.
//
// A broker needs these permissions in its namespace and no others (internal/operator/render holds
// the Role):
//
//	heartwood.dev        logclusters, topics, partitions  get list watch
//	heartwood.dev        topics                           create delete patch
//	heartwood.dev        partitions                       patch
//	heartwood.dev        partitions/status                get update
//	coordination.k8s.io  leases                           get list watch create; update its cluster's
//
// A broker is alive while its Lease is observed to be renewed (internal/lease). While this broker
// cannot reach the API server, it expires no Lease and continues to serve from the last image.
//
// The image names a partition's leader only while the elected broker epoch is alive. A broker that
// was killed and returns is still named as leader in the Partition, with its earlier broker epoch.
// It waits until the operator elects it again, so that clients detect by the leader epoch that
// records that were not synced may be lost.
//
// Goroutines of Run: the watches (controller-runtime's cache), the one that renews the Lease, and
// Run's own, which alone builds images and calls apply. Event handlers only set flags. All are
// joined before Run returns.
package kube
