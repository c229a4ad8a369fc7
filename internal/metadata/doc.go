// Package metadata is what a broker knows of its cluster: brokers that are up, topics and their
// settings, who holds and who leads each partition. A broker sees it as an Image, immutable and
// whole, and gets it from a Store.
//
// There are two Stores: local keeps everything in one file of one process, kube keeps it in the API
// server; remote lets another process use a local one. What they must do alike is here, as pure
// functions: from a Topic resource to a Topic (resource.go), from a Kafka admin client's request to
// a Topic resource (create.go), names and ids (names.go, id.go). So a topic means the same in
// `heartwood dev` and on Kubernetes.
//
// Invariants of an Image: Brokers are sorted by ID, Topics by Name; Partitions[i].Index == i; names
// and ids are unique; a partition's Leader is NoBroker or one of its ISR, and its ISR is part of
// its Replicas. Nobody changes an Image once made.
//
// The package has no goroutine, lock or clock.
package metadata
