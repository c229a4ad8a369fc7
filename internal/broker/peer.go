package broker

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"heartwood.dev/heartwood/internal/handler"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// peer is a replica.Peer over the Kafka protocol.
type peer struct {
	*wire.Peer
}

// dial connects to another broker's listener.
func (b *Broker) dial(ctx context.Context, to metadata.Broker) (replica.Peer, error) {
	address := cmp.Or(to.Peer, net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	connection, err := wire.DialPeer(ctx, address, "broker-"+strconv.Itoa(int(b.opts.NodeID)))
	if err != nil {
		return nil, err
	}
	return &peer{connection}, nil
}

// Pull implements replica.Peer.
func (p *peer) Pull(ctx context.Context, req *replica.Pull) ([]replica.Pulled, error) {
	topics := make(map[metadata.ID]string)
	for i := range req.Partitions {
		topics[req.Partitions[i].Topic] = req.Partitions[i].ID.Topic
	}
	key, version, flexible := handler.PullCall()
	body, err := p.Do(ctx, wire.Call{
		Key: key, Version: version, Flexible: flexible,
		Append: func(out []byte) []byte { return handler.AppendPull(out, req) },
	})
	if err != nil {
		return nil, err
	}
	return handler.DecodePull(body, topics)
}
