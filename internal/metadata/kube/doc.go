// Package kube is a broker's view of the API server: Topics, Partitions and broker Leases become
// images, and what this broker leads and serves is written back. It decides nothing: replicas and
// leaders are the operator's.
//
//   - image.go, liveness.go: pure. Resources and Leases as they were seen become an image.
//   - store.go: Run, the watches, and when an image is made anew.
//   - lease.go: this broker's own Lease, kept by a goroutine of its own; once.go: no write is sent
//     twice.
//   - serving.go, isr.go: write servingEpoch and isr of the partitions that are led here, and
//     foundEpoch of those that would be, but for a log that knows a later epoch.
//   - admin.go: topics made and deleted by Kafka's admin clients; alter.go: topics changed and
//     partitions moved by them.
//
// A broker needs these permissions in its namespace, and no more (internal/operator/render holds
// the Role):
//
//	heartwood.dev        logclusters, topics, partitions  get list watch
//	heartwood.dev        topics                           create delete patch
//	heartwood.dev        partitions                       patch
//	heartwood.dev        partitions/status                get update
//	coordination.k8s.io  leases                           get list watch create; update its cluster's
//
// Who is up is told by Leases: a broker lives while we see it renew. What counts is that, by our
// clock; another's clock is asked only of a Lease that we see for the first time, and what comes of
// it holds until the next renewal. While we ourselves cannot reach the API server, nobody's time
// runs out: what is not seen is not dead, and the data plane goes on with the last image.
//
// A partition's leader is in the image only while it is the incarnation that was elected. A broker
// that was killed and comes back finds itself still named as leader, under an epoch of its earlier
// life; it waits for the operator to elect it again, so that clients see by the epoch that records
// not yet synced may be gone.
//
// Goroutines of Run: the watches (controller-runtime's cache), the Lease's keeper, and Run's own,
// which alone makes images and calls apply. Event handlers only set flags. All are joined before
// Run returns.
package kube
