package broker

import (
	"context"

	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/wire"
)

// peer implements replica.Peer over the Kafka protocol.
type peer struct {
	*wire.Peer
	// topics contains the name of each topic requested in the current fetch session, because responses
	// identify topics only by id.
	topics map[metadata.ID]string
}

// dial connects to another broker. Fetchers use the connection.
func (b *Broker) dial(ctx context.Context, to metadata.Broker) (replica.Peer, error) {
	connection, err := b.dialPeer(ctx, to)
	if err != nil {
		return nil, err
	}
	return &peer{connection, map[metadata.ID]string{}}, nil
}

// Fetch implements replica.Peer.
func (p *peer) Fetch(ctx context.Context, req *replica.FollowerFetch) (replica.FollowerResponse,
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

// Interrupt implements replica.Peer. It makes a waiting fetch return by sending another request on
// the connection.
func (p *peer) Interrupt() { p.Peer.Interrupt(data.InterruptCall()) }
