package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// store is the state of the service: what the topic contained when it was last read.
type store struct {
	client    *kgo.Client
	topic     string
	entities  map[string][]byte
	positions map[int32]int64 // offset of the next record to read, by partition
}

// openStore connects and restores the state.
func openStore(ctx context.Context, bootstrap, topic string) (*store, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics(topic), // all partitions, without a group
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// franz-go's default sends a record to the partition of its key's murmur2 hash, as Java does.
		kgo.DefaultProduceTopic(topic),
	)
	if err != nil {
		return nil, err
	}
	s := &store{client: client, topic: topic, entities: map[string][]byte{},
		positions: map[int32]int64{}}
	if err := s.catchUp(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

// write sends a record and returns when all in-sync replicas have it. A nil value is a tombstone.
// The state changes when catchUp reads the record, never here: the topic decides on the order of
// the writes of several services.
func (s *store) write(ctx context.Context, key string, value []byte) error {
	return s.client.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Value: value}).FirstErr()
}

// catchUp reads the topic up to its present end. A start and a read of the state are the same. It
// waits for the record before the end offset of each partition, because franz-go has no function
// for the position of a consumer. This record exists: the cleaner keeps the last record of a log
// even if it is an old tombstone. (Apache Kafka's cleaner may remove this record.)
func (s *store) catchUp(ctx context.Context) error {
	admin := kadm.NewClient(s.client)
	starts, err := admin.ListStartOffsets(ctx, s.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, s.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	for s.behind(starts, ends) {
		fetches := s.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(s.apply)
	}
	return nil
}

// behind reports whether a partition has not been read up to its end.
func (s *store) behind(starts, ends kadm.ListedOffsets) bool {
	for partition, end := range ends[s.topic] {
		if max(s.positions[partition], starts[s.topic][partition].Offset) < end.Offset {
			return true
		}
	}
	return false
}

func (s *store) apply(r *kgo.Record) {
	s.positions[r.Partition] = r.Offset + 1
	if r.Value == nil {
		delete(s.entities, string(r.Key))
	} else {
		s.entities[string(r.Key)] = r.Value
	}
}
