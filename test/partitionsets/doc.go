// Package partitionsets measures what PartitionSets cost a real API server: CPU time of
// kube-apiserver and etcd for a status write, by the number of partitions in the set, and the time
// in which three writers change all partitions, by the number of sets. ADR 0250 has the figures.
//
//	go test ./test/partitionsets -run '^$' -bench . -benchtime 100x
package partitionsets
