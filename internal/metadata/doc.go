// Package metadata contains a broker's view of its cluster: the brokers that are up, the topics
// with their settings, and the partitions with their replicas and leaders. A Store provides this
// view to the broker as an immutable metadata image (Image).
//
// There are three Stores. Package local stores everything in one file of one process, kube stores
// it in the API server, and remote gives other processes access to a local store. This package
// contains the code that the Stores share, as pure functions. These functions convert a Topic
// resource to a Topic (resource.go), convert a Kafka admin client's request to a Topic resource
// (create.go), and generate names and ids (names.go, id.go). So a topic has the same meaning in
// `heartwood dev` and on Kubernetes.
//
// Invariants of an Image: Brokers are sorted by ID and Topics by Name; Partitions[i].Index == i;
// names and ids are unique; a partition's Leader is NoBroker or in its ISR, and its ISR is part of
// its Replicas. An Image never changes.
//
// The package has no goroutine, lock or clock.
package metadata
