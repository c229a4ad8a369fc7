package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reassign requests other replicas for one partition, like kafka-reassign-partitions.
func (s *server) reassign(r *http.Request, _ *account, _ *Stats) error {
	topic, partition, err := partitionOf(r)
	if err != nil {
		return err
	}
	var replicas []int32
	for text := range strings.SplitSeq(r.FormValue("replicas"), ",") {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("parameter replicas: %w", err)
		}
		replicas = append(replicas, int32(id))
	}
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(topic, partition, replicas)
	responses, err := kadm.NewClient(s.producing()).AlterPartitionAssignments(r.Context(), request)
	if err != nil {
		return err
	}
	return responses.Error()
}

// reassigning reports the number of the topic's partitions that are being reassigned. It sends the
// same request as Kafka's tools.
func (s *server) reassigning(r *http.Request, _ *account, response *Stats) error {
	requested, topic := kadm.TopicsSet{}, r.FormValue("topic")
	topics, err := kadm.NewClient(s.producing()).ListTopics(r.Context(), topic)
	if err != nil {
		return err
	}
	for _, partition := range topics[topic].Partitions {
		requested.Add(topic, partition.Partition)
	}
	reassignments, err := kadm.NewClient(s.producing()).ListPartitionReassignments(r.Context(),
		requested)
	if err != nil {
		return err
	}
	response.Reassigning = len(reassignments[topic])
	return nil
}

// elect requests the election of a partition's preferred leader, like kafka-leader-election. It
// succeeds if the preferred leader already leads the partition.
func (s *server) elect(r *http.Request, _ *account, _ *Stats) error {
	topic, partition, err := partitionOf(r)
	if err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	responses, err := kadm.NewClient(s.producing()).ElectLeaders(r.Context(),
		kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	return responses[topic][partition].Err
}

// configs changes one setting of a topic, with IncrementalAlterConfigs or AlterConfigs.
func (s *server) configs(r *http.Request, _ *account, _ *Stats) error {
	value := r.FormValue("value")
	change := kadm.AlterConfig{Name: r.FormValue("key"), Value: &value}
	alter := kadm.NewClient(s.producing()).AlterTopicConfigs
	if op := r.FormValue("op"); op == "replace" {
		alter = kadm.NewClient(s.producing()).AlterTopicConfigsState
	} else {
		number, err := strconv.ParseInt(op, 10, 8)
		if err != nil {
			return fmt.Errorf("parameter op: %w", err)
		}
		change.Op = kadm.IncrementalOp(number)
	}
	responses, err := alter(r.Context(), []kadm.AlterConfig{change}, r.FormValue("topic"))
	if err != nil {
		return err
	}
	response, err := responses.On(r.FormValue("topic"), nil)
	if err != nil {
		return err
	}
	if response.Err != nil {
		return fmt.Errorf("%w: %s", response.Err, response.ErrMessage)
	}
	return nil
}

// nearest reads the whole topic as a consumer in a rack, and counts the batches that each broker
// sent.
func (s *server) nearest(r *http.Request, a *account, response *Stats) error {
	counts := &sources{batches: map[int32]int{}}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap...), kgo.ConsumeTopics(r.FormValue("topic")),
		kgo.Rack(r.FormValue("rack")), kgo.WithHooks(counts),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(8<<10),
	)
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	defer client.Close()
	for want := a.book.Count(); response.Held < want; {
		polled := client.PollFetches(r.Context())
		if err := polled.Err(); err != nil {
			return fmt.Errorf("read %d records, %d received: %w", want, response.Held, err)
		}
		response.Held += polled.NumRecords()
	}
	response.Sources = counts.counted()
	return nil
}

// sources is a consumer hook that counts the batches that each broker sent. No other lock is
// acquired while its lock is held.
type sources struct {
	mu      sync.Mutex
	batches map[int32]int // number of batches from each broker
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (s *sources) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32,
	_ kgo.FetchBatchMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches[broker.NodeID]++
}

func (s *sources) counted() map[int32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.batches)
}

// partitionOf returns the topic and the partition in a request's parameters.
func partitionOf(r *http.Request) (topic string, partition int32, err error) {
	topic = r.FormValue("topic")
	number, err := strconv.ParseInt(r.FormValue("partition"), 10, 32)
	if topic == "" || err != nil {
		return "", 0, errors.Join(errors.New("the parameters topic and partition are required"),
			err)
	}
	return topic, int32(number), nil
}
