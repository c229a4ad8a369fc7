// Package metadata is a broker's view of its cluster: the brokers that are up, topics and their
// settings, replicas and leaders of partitions. A broker sees it as an immutable metadata image
// (Image), which a Store provides.
//
// There are two Stores: local keeps everything in one file of one process, and kube keeps it in the
// API server; remote gives another process access to a local one. Their common parts are here,
// as pure functions: from a Topic resource to a Topic (resource.go), from a request of a Kafka
// admin client to a Topic resource (create.go), names and ids (names.go, id.go). So a topic means
// the same in `heartwood dev` and on Kubernetes.
//
// Invariants of an Image: Brokers are sorted by ID and Topics by Name; Partitions[i].Index == i;
// names and ids are unique; a partition's Leader is NoBroker or in its ISR, and its ISR is part of
// its Replicas. An Image is never changed.
//
// The package has no goroutine, lock or clock.
package metadata
