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

// group is a member of a consumer group that notes what it had. It commits every second, and when
// it leaves.
type group struct {
	client *kgo.Client
	ended  chan struct{} // closed when consume has returned

	mu    sync.Mutex
	had   map[ledger.Place]bool
	again int
}

// nextProtocol is how franz-go is asked for the protocol of KIP-848.
//
//nolint:revive,staticcheck // the key is franz-go's
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
		return fmt.Errorf("make a consumer: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.group != nil {
		client.Close()
		return errors.New("the topic has a consumer")
	}
	a.group = &group{client: client, ended: make(chan struct{}), had: map[ledger.Place]bool{}}
	go a.group.consume(s.ctx)
	return nil
}

// consume notes what it is given until the client is closed.
func (g *group) consume(ctx context.Context) {
	defer close(g.ended)
	for {
		polled := g.client.PollFetches(ctx)
		if polled.IsClientClosed() || ctx.Err() != nil {
			return
		}
		g.note(polled.Records())
		g.client.MarkCommitRecords(polled.Records()...)
	}
}

func (g *group) note(records []*kgo.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range records {
		at := ledger.Place{Partition: r.Partition, Offset: r.Offset}
		if g.had[at] {
			g.again++
		}
		g.had[at] = true
	}
}

// consumed says how much of what was acknowledged the group had.
func (s *server) consumed(_ *http.Request, a *account, answer *Stats) error {
	s.mu.Lock()
	group := a.group
	s.mu.Unlock()
	if group == nil {
		return errors.New("the topic has no consumer")
	}
	group.mu.Lock()
	defer group.mu.Unlock()
	answer.Consumed, answer.Again = a.book.CountAmong(group.had), group.again
	return nil
}

// leave commits what was consumed and ends the consumer.
func (s *server) leave(r *http.Request, a *account, answer *Stats) error {
	if err := s.consumed(r, a, answer); err != nil {
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
