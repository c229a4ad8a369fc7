// Package metadata is a broker's view of its cluster: the brokers that are up, topics and their
// settings, replicas and leaders of partitions. A broker sees it as an immutable metadata image
// (Image), which a Store provides.
//
// There are three Stores. Package local stores everything in one file of one process, kube stores
// it in the API server, and remote gives other processes access to a local store. This package
// contains the code that they share, as pure functions. They convert a Topic resource to a Topic
// (resource.go) and a request of a Kafka admin client to a Topic resource (create.go), and generate
// names and ids (names.go, id.go). So a topic has the same meaning in `heartwood dev` and on
// Kubernetes.
//
// Invariants of an Image: Brokers are sorted by ID and Topics by Name; Partitions[i].Index == i;
// names and ids are unique; a partition's Leader is NoBroker or in its ISR, and its ISR is part of
// its Replicas. An Image is never changed.
//
// The package has no goroutine, lock or clock.
package metadata
