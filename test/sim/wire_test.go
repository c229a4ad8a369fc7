package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// In some runs, brokers replicate and consumers read as in production: through internal/wire and
// internal/handler. The bytes of their connections pass through the simulated network.

// listener accepts connections to a broker process.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
	serves sync.WaitGroup
}

// listen accepts connections until the process ends.
func (l *liveBroker) listen(logger *slog.Logger) *listener {
	opened := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	image := func() *metadata.Image {
		if image := l.image.Load(); image != nil {
			return image
		}
		return metadata.NewImage("", metadata.CleanerBudget{}, nil, nil)
	}
	server := wire.NewServer(wire.Options{
		Listener: opened, Logger: logger,
		Handler: handler.New(handler.Options{NodeID: l.id, Image: image, Replicas: l.set,
			Logger: logger}),
	})
	opened.serves.Go(func() { _ = server.Serve(l.ctx) })
	return opened
}

// wait waits until the server has ended, which happens after the process's context has ended. The
// listener can be nil.
func (s *listener) wait() {
	if s != nil {
		s.serves.Wait()
	}
}

// Accept implements net.Listener.
func (s *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *listener) Close() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *listener) Addr() net.Addr { return &net.UnixAddr{Name: "simulated"} }

// connect opens a connection from a node to a broker process. Its bytes are delayed like messages.
// If the nodes are disconnected, the connection ends and its bytes are lost. lives reports whether
// the process at the near end is alive.
func (w *world) connect(ctx context.Context, from int32, to *liveBroker,
	lives func() bool) (net.Conn,
	error) {
	near, nearEnd := net.Pipe()
	farEnd, far := net.Pipe()
	select {
	case to.wire.conns <- far:
	case <-to.wire.closed:
		return nil, errUnreachable
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.spawn(func() {
		w.carry(farEnd, nearEnd, from, to.id,
			func() bool { return lives() && !to.dead.Load() })
	})
	w.spawn(func() {
		w.carry(nearEnd, farEnd, to.id, from,
			func() bool { return lives() && !to.dead.Load() })
	})
	return near, nil
}

// kernelChunks is the number of writes that a connection buffers before they are delivered. The
// number is arbitrary. A broker can write a few bytes while it holds a lock, because a real kernel
// accepts these bytes at once. If this write had to wait for the delivery, a goroutine that waits
// for the lock would stop the bubble's time.
const kernelChunks = 4096

// carry transfers bytes in one direction until the connection ends.
func (w *world) carry(to, from net.Conn, sender, receiver int32, lives func() bool) {
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	sent, ended := make(chan []byte, kernelChunks), make(chan struct{})
	defer close(ended)
	w.spawn(func() { readInto(from, sent, ended) })
	for bytes := range sent {
		if w.net.send(w.ctx, sender, receiver) != nil || !lives() {
			return
		}
		if _, err := to.Write(bytes); err != nil {
			return
		}
	}
	_ = w.net.send(w.ctx, sender, receiver) // the end of the connection is delayed, too
}

// readInto reads a connection's bytes into a channel, until the connection or its carrier ends.
func readInto(from net.Conn, sent chan<- []byte, ended <-chan struct{}) {
	defer close(sent)
	for {
		buf := make([]byte, 8<<10)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case sent <- buf[:n]:
		case <-ended:
			return
		}
	}
}

// wirePeer is a replica.Peer like the one in internal/broker.
type wirePeer struct {
	*wire.Peer
	topics map[metadata.ID]string
}

func (l *liveBroker) connect(ctx context.Context, to *liveBroker) (replica.Peer, error) {
	conn, err := l.w.connect(ctx, l.id, to, func() bool { return !l.dead.Load() })
	if err != nil {
		return nil, err
	}
	return &wirePeer{wire.NewPeer(conn, fmt.Sprintf("broker-%d", l.id)), map[metadata.ID]string{}},
		nil
}

// Fetch implements replica.Peer.
func (p *wirePeer) Fetch(ctx context.Context, req *replica.FollowerFetch) (replica.FollowerResponse,
	error) {
	if req.Session.Epoch == session.New {
		clear(p.topics)
	}
	for i := range req.Partitions {
		p.topics[req.Partitions[i].Topic] = req.Partitions[i].ID.Topic
	}
	body, err := p.Do(ctx, data.FollowerFetchCall(req))
	if err != nil {
		return replica.FollowerResponse{}, err
	}
	return data.DecodeFollowerFetch(body, p.topics)
}

// Interrupt implements replica.Peer.
func (p *wirePeer) Interrupt() { p.Peer.Interrupt(data.InterruptCall()) }

// fetch fetches one partition from a broker, like a consumer. It returns the records with the
// result.
func (c *client) fetch(ctx context.Context, l *liveBroker,
	request replica.FetchRequest) (result replica.FetchResult, records []byte, err error) {
	if l.wire == nil {
		result = l.set.Fetch(ctx, request)[0]
		records, err = takeRecords(&result)
		return result, records, err
	}
	asked := fetchRequest(&request)
	body, err := c.call(ctx, l,
		wire.Call{Key: asked.Key(), Version: asked.Version, Flexible: asked.IsFlexible(),
			Append: asked.AppendTo})
	if err != nil {
		return result, nil, err
	}
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = asked.Version
	if err := answer.ReadFrom(body); err != nil || len(answer.Topics) != 1 ||
		len(answer.Topics[0].Partitions) != 1 {
		c.w.fail("broker %d: response to a consumer's fetch: error %d, %d topics: %v", l.id,
			answer.ErrorCode, len(answer.Topics), err)
		return result, nil, errLost
	}
	part := &answer.Topics[0].Partitions[0]
	result = replica.FetchResult{LogStart: part.LogStartOffset, HighWater: part.HighWatermark,
		Stable: part.LastStableOffset, LogEnd: -1}
	if part.DivergingEpoch.EndOffset >= 0 {
		result.Diverging = &replica.EpochEnd{Epoch: part.DivergingEpoch.Epoch,
			End: part.DivergingEpoch.EndOffset}
	}
	result.Data = &logstore.Slice{}
	for _, a := range part.AbortedTransactions {
		result.Data.Aborted = append(result.Data.Aborted,
			segment.AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	switch part.ErrorCode {
	case 0:
	case 1:
		err = logstore.ErrOffsetOutOfRange
		// As in Kafka, the response contains no offsets. A consumer would request them separately.
		if log := l.store.Log(request.Partitions[0].ID); log != nil {
			result.LogStart, result.LogEnd = log.LogStart(), log.LogEnd()
		}
	default:
		err = fmt.Errorf("error %d", part.ErrorCode)
	}
	return result, part.RecordBatches, err
}

// call sends a request over the existing connection to a broker, or over a new connection.
func (c *client) call(ctx context.Context, l *liveBroker, request wire.Call) ([]byte, error) {
	peer := c.peers[l]
	if peer == nil {
		conn, err := c.w.connect(ctx, clients, l, func() bool { return true })
		if err != nil {
			return nil, err
		}
		peer = wire.NewPeer(conn, fmt.Sprintf("client-%d", c.id))
		c.peers[l] = peer
	}
	body, err := peer.Do(ctx, request)
	if err != nil {
		_ = peer.Close()
		delete(c.peers, l)
	}
	return body, err
}

// fetchRequest builds a consumer's request for one partition, like Kafka's current client.
func fetchRequest(request *replica.FetchRequest) *kmsg.FetchRequest {
	want := request.Partitions[0]
	asked := kmsg.NewPtrFetchRequest()
	asked.Version, asked.MaxWaitMillis = 17, int32(request.Wait.Milliseconds())
	asked.MinBytes, asked.MaxBytes, asked.SessionEpoch = int32(request.BytesMin),
		int32(request.BytesMax), session.None
	if request.ReadCommitted {
		asked.IsolationLevel = 1
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.FetchOffset = want.ID.Index, want.LeaderEpoch,
		want.Offset
	part.LastFetchedEpoch, part.PartitionMaxBytes = want.LastEpoch, int32(want.BytesMax)
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = want.ID.Topic, want.Topic,
		[]kmsg.FetchRequestTopicPartition{part}
	asked.Topics = []kmsg.FetchRequestTopic{topic}
	return asked
}
