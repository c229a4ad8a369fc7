package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
)

// group is a member of a consumer group. It stores the positions of the records that it has
// consumed. It commits every second, and when it leaves.
type group struct {
	client *kgo.Client
	ended  chan struct{} // closed when consume has returned

	mu         sync.Mutex
	had        map[ledger.Position]bool
	duplicates int
}

// nextProtocol selects the consumer protocol (KIP-848) in franz-go.
//
//nolint:revive,staticcheck // franz-go defines the key
func nextProtocol(ctx context.Context) context.Context {
	return context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
}

func (s *server) join(r *http.Request, a *account, _ *Stats) error {
	ctx := s.ctx
	if r.FormValue("next") != "" {
		ctx = nextProtocol(ctx)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.bootstrap...), kgo.ConsumeTopics(r.FormValue("topic")),
		kgo.ConsumerGroup(r.FormValue("group")), kgo.WithContext(ctx),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(autoCommit),
		kgo.WithLogger(logger("group ")),
	)
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.group != nil {
		client.Close()
		return errors.New("the topic already has a consumer")
	}
	a.group = &group{client: client, ended: make(chan struct{}), had: map[ledger.Position]bool{}}
	go a.group.consume(s.ctx)
	return nil
}

// consume polls and stores the positions of the consumed records until the client is closed.
func (g *group) consume(ctx context.Context) {
	defer close(g.ended)
	for {
		polled := g.client.PollFetches(ctx)
		if polled.IsClientClosed() || ctx.Err() != nil {
			return
		}
		g.record(polled.Records())
		g.client.MarkCommitRecords(polled.Records()...)
	}
}

func (g *group) record(records []*kgo.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		position := ledger.Position{Partition: r.Partition, Offset: r.Offset}
		if g.had[position] {
			g.duplicates++
		}
		g.had[position] = true
	}
}

// consumed reports the number of acknowledged records that the group has consumed.
func (s *server) consumed(_ *http.Request, a *account, response *Stats) error {
	s.mu.Lock()
	group := a.group
	s.mu.Unlock()
	if group == nil {
		return errors.New("the topic has no consumer")
	}
	group.mu.Lock()
	defer group.mu.Unlock()
	response.Consumed, response.Duplicates = a.book.CountAt(group.had), group.duplicates
	return nil
}

// leave commits the consumed offsets and stops the consumer.
func (s *server) leave(r *http.Request, a *account, response *Stats) error {
	if err := s.consumed(r, a, response); err != nil {
		return err
	}
	s.mu.Lock()
	group := a.group
	a.group = nil
	s.mu.Unlock()
	err := group.client.CommitMarkedOffsets(r.Context())
	group.client.Close()
	<-group.ended
	return err
}
