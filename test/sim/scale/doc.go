// Package scale simulates the control plane of a large cluster, 100 brokers and 10,000 partitions,
// in one process and in simulated time. It measures the duration of elections, ISR changes and the
// return of a broker, and the number of writes and conflicts that they cause.
//
// The decisions are real (internal/metadata/partitionset, internal/placement), and so is the writer
// of each process (internal/metadata/partitionset/commit). The API server is simulated with the
// measured costs of a real API server (costs_test.go); its requests wait for a core. There are no
// logs. Instead, after a random time, a leader detects a failed follower or adds a returned
// follower.
//
// docs/operate/scale.md has the results. Run TestLargeCluster with -large to repeat them.
package scale
