package main

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// roundRobin returns a partitioner for the keys of package traffic, which end with a number. It
// chooses partition number modulo partitions. So a stream writes to each partition at the same
// intervals, and the gaps show how long a partition is unavailable. With a hash, partitions would
// have different numbers of keys, and some partitions would have none.
func roundRobin() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, partitions int) int { return keyNumber(r.Key) % partitions }
	})
}

// keyNumber returns the number at the end of a key, such as 12 for "key-000012".
func keyNumber(key []byte) int {
	text := string(key)
	number, err := strconv.ParseUint(text[strings.LastIndexByte(text, '-')+1:], 10, 31)
	if err != nil {
		return 0
	}
	return int(number)
}
