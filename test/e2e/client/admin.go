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

// move asks for other replicas of one partition, as Kafka's kafka-reassign-partitions does.
func (s *server) move(r *http.Request, _ *account, _ *Stats) error {
	topic, partition, err := place(r)
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
	var ask kadm.AlterPartitionAssignmentsReq
	ask.Assign(topic, partition, replicas)
	answers, err := kadm.NewClient(s.producing()).AlterPartitionAssignments(r.Context(), ask)
	if err != nil {
		return err
	}
	return answers.Error()
}

// moving counts the partitions of the topic that are on their way, as Kafka's tools see it.
func (s *server) moving(r *http.Request, _ *account, answer *Stats) error {
	asked, known := kadm.TopicsSet{}, r.FormValue("topic")
	topics, err := kadm.NewClient(s.producing()).ListTopics(r.Context(), known)
	if err != nil {
		return err
	}
	for _, partition := range topics[known].Partitions {
		asked.Add(known, partition.Partition)
	}
	moves, err := kadm.NewClient(s.producing()).ListPartitionReassignments(r.Context(), asked)
	if err != nil {
		return err
	}
	answer.Moving = len(moves[known])
	return nil
}

// elect asks for the preferred leader of one partition, as Kafka's kafka-leader-election does. One
// that leads already is no fault.
func (s *server) elect(r *http.Request, _ *account, _ *Stats) error {
	topic, partition, err := place(r)
	if err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	answers, err := kadm.NewClient(s.producing()).ElectLeaders(r.Context(),
		kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	return answers[topic][partition].Err
}

// nearest reads the whole topic as a consumer in a rack, and says how many batches came from which
// broker.
func (s *server) nearest(r *http.Request, a *account, answer *Stats) error {
	from := &sources{batches: map[int32]int{}}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap...), kgo.ConsumeTopics(r.FormValue("topic")),
		kgo.Rack(r.FormValue("rack")), kgo.WithHooks(from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(8<<10),
	)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	defer client.Close()
	for want := a.book.Count(); answer.Held < want; {
		polled := client.PollFetches(r.Context())
		if err := polled.Err(); err != nil {
			return fmt.Errorf("read %d records, of which %d came: %w", want, answer.Held, err)
		}
		answer.Held += polled.NumRecords()
	}
	answer.Sources = from.counted()
	return nil
}

// sources counts the batches that each broker sent. It is a hook of a consumer. The lock is a leaf.
type sources struct {
	mu      sync.Mutex
	batches map[int32]int // by broker
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

// place reads which partition a request is about.
func place(r *http.Request) (topic string, partition int32, err error) {
	topic = r.FormValue("topic")
	number, err := strconv.ParseInt(r.FormValue("partition"), 10, 32)
	if topic == "" || err != nil {
		return "", 0, errors.Join(errors.New("give topic and partition"), err)
	}
	return topic, int32(number), nil
}
