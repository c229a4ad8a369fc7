// Package partitionsets measures the cost of PartitionSets on a real API server. One benchmark
// measures the CPU time of kube-apiserver and etcd for a status write, for several numbers of
// partitions in a set. Another one measures the time in which three writers change all partitions,
// for several numbers of sets. ADR 0250 has the figures.
//
//	go test ./test/partitionsets -run '^$' -bench . -benchtime 100x
package partitionsets
