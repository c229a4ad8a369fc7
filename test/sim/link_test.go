package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// link is a connection between two brokers.
type link struct {
	from, to *liveBroker
	ctx      context.Context // canceled when the connection ends
	cancel   context.CancelFunc

	interrupts chan struct{} // capacity 1
}

func (l *liveBroker) dial(ctx context.Context, to metadata.Broker) (replica.Peer, error) {
	if err := l.w.net.send(ctx, l.id, to.ID); err != nil {
		return nil, err
	}
	other := l.w.brokers[to.ID].live.Load()
	if other == nil && !l.dead.Load() { // the machine is up, but refuses the connection
		return nil, fmt.Errorf("%w: %w", errUnreachable, syscall.ECONNREFUSED)
	}
	if l.dead.Load() || other.image.Load() == nil {
		return nil, errUnreachable
	}
	if err := l.w.net.send(ctx, to.ID, l.id); err != nil {
		return nil, err
	}
	if other.wire != nil {
		return l.connect(ctx, other)
	}
	made := &link{from: l, to: other, interrupts: make(chan struct{}, 1)}
	made.ctx, made.cancel = context.WithCancel(other.ctx)
	return made, nil
}

func (k *link) Close() error {
	k.cancel()
	return nil
}

// Interrupt implements replica.Peer. The interrupt arrives after the fetch request, or is lost with
// the connection.
func (k *link) Interrupt() {
	k.from.w.spawn(func() {
		if k.from.w.net.send(k.ctx, k.from.id, k.to.id) != nil {
			return
		}
		select {
		case k.interrupts <- struct{}{}:
		default:
		}
	})
}

// response is the response to a fetch request.
type response struct {
	got replica.FollowerResponse
	err error
}

// Fetch implements replica.Peer. Once sent, a request arrives even if its sender no longer waits
// for the response.
func (k *link) Fetch(ctx context.Context, req *replica.FollowerFetch) (replica.FollowerResponse,
	error) {
	sent := *req
	sent.Partitions, sent.Forgotten = slices.Clone(req.Partitions), slices.Clone(req.Forgotten)
	done := make(chan response, 1)
	k.from.w.spawn(func() {
		got, err := k.serve(&sent)
		done <- response{got, err}
	})
	select {
	case a := <-done:
		return a.got, a.err
	case <-ctx.Done():
		return replica.FollowerResponse{}, ctx.Err()
	}
}

func (k *link) serve(req *replica.FollowerFetch) (none replica.FollowerResponse, err error) {
	w := k.from.w
	if err := w.net.send(w.ctx, k.from.id, k.to.id); err != nil {
		return none, err
	}
	if k.to.dead.Load() || k.from.dead.Load() {
		return none, io.ErrUnexpectedEOF
	}
	request := replica.FetchRequest{
		BytesMin: 1, BytesMax: req.BytesMax, Wait: req.Wait, Replica: &req.Replica,
		Session: req.Session, Forgotten: req.Forgotten, Interrupt: k.interrupts,
	}
	for _, p := range req.Partitions {
		request.Partitions = append(request.Partitions, replica.FetchPartition{
			ID: p.ID, Topic: p.Topic, Offset: p.Offset, BytesMax: p.BytesMax,
			LeaderEpoch: p.LeaderEpoch, LastEpoch: p.LastEpoch,
			HighWater: p.HighWater, DurableEnd: p.DurableEnd, TombstoneClean: p.TombstoneClean,
			ReplicasTombstoneClean: p.ReplicasTombstoneClean,
			LogStart:               p.LogStart, ReplicaIncarnation: p.ReplicaIncarnation,
		})
	}
	switch w.net.randomFor(k.from.id, k.to.id) % 64 {
	case 0: // the request arrives twice; the first response is lost
		once := request
		once.Wait = 0
		lost, _ := k.to.set.FetchInSession(k.ctx, once)
		for i := range lost.Results {
			_ = followerResult(&lost.Results[i])
		}
	case 1: // the leader has evicted the session
		request.Session.ID++
	}
	fetched, refused := k.to.set.FetchInSession(k.ctx, request)
	answers := make([]replica.FollowerResult, 0, len(fetched.Results))
	for i := range fetched.Results {
		answers = append(answers, followerResult(&fetched.Results[i]))
	}
	if k.to.dead.Load() {
		return none, io.ErrUnexpectedEOF
	}
	if err := w.net.send(w.ctx, k.to.id, k.from.id); err != nil {
		return none, err
	}
	return replica.FollowerResponse{Session: fetched.Session, Partitions: answers}, refused
}

// followerResult converts a result to the follower's form, and releases the result's data.
func followerResult(r *replica.FetchResult) replica.FollowerResult {
	answer := replica.FollowerResult{
		ID: r.ID, Err: r.Err, HighWater: r.HighWater, LogStart: r.LogStart, LogEnd: r.LogEnd,
		ReplicasTombstoneClean: r.ReplicasTombstoneClean, DivergingEpoch: -1,
	}
	if r.Diverging != nil {
		answer.DivergingEpoch, answer.DivergingEnd = r.Diverging.Epoch, r.Diverging.End
	}
	answer.Records, answer.Err = takeRecords(r)
	return answer
}

// takeRecords returns a copy of the records in a result, and releases the result's data.
func takeRecords(r *replica.FetchResult) ([]byte, error) {
	if r.Data == nil {
		return nil, r.Err
	}
	defer r.Data.Release()
	if r.Data.Length == 0 {
		return nil, r.Err
	}
	buf := make([]byte, r.Data.Length)
	if _, err := r.Data.File.ReadAt(buf, r.Data.Position); err != nil {
		return nil, err
	}
	return buf, r.Err
}
