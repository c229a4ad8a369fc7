package main

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestKeysAreSpreadEvenly(t *testing.T) {
	const partitions = 100
	topic, counts := roundRobin().ForTopic("hundred"), map[int]int{}
	for key := range 5 * partitions {
		r := &kgo.Record{Key: fmt.Appendf(nil, "key-%06d", key)}
		if !topic.RequiresConsistency(r) {
			t.Fatal("an unavailable partition would be replaced by another one")
		}
		counts[topic.Partition(r, partitions)]++
	}
	for partition := range partitions {
		if counts[partition] != 5 {
			t.Errorf("partition %d has %d keys, want 5", partition, counts[partition])
		}
	}
}
