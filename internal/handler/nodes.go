package handler

import (
	"heartwood.dev/heartwood/internal/metadata"
)

// node is a broker as the clients of one listener see it.
type node struct {
	ID int32
	metadata.Endpoint
	Rack string
}

// nodeOn returns a broker with its endpoint on a listener. ok is false if the broker has no
// endpoint on that listener, so that clients of the listener cannot reach the broker.
func nodeOn(b *metadata.Broker, listener string) (n node, ok bool) {
	endpoint, ok := b.Endpoints.On(listener)
	return node{ID: b.ID, Endpoint: endpoint, Rack: b.Rack}, ok
}

// nodes returns the brokers that are up and have an endpoint on a listener, sorted by id.
func nodes(img *metadata.Image, listener string) []node {
	all := make([]node, 0, len(img.Brokers))
	for i := range img.Brokers {
		if n, ok := nodeOn(&img.Brokers[i], listener); ok {
			all = append(all, n)
		}
	}
	return all
}

// rack returns null for a broker without a rack: clients would take an empty string for a rack's
// name.
func (n *node) rack() *string {
	if n.Rack == "" {
		return nil
	}
	return &n.Rack
}

// view is a metadata image as it is described to the clients of one listener.
type view struct {
	image    *metadata.Image
	listener string
	// listenerError is whether the client knows LISTENER_NOT_FOUND (Metadata from version 6 on).
	listenerError bool
}

// checkLeader returns why a client cannot connect to the leader of a partition, nil if it can.
func (v *view) checkLeader(p *metadata.Partition) error {
	leader, up := v.image.Broker(p.Leader)
	if !up {
		return errLeaderNotAvailable
	}
	if _, ok := nodeOn(&leader, v.listener); ok {
		return nil
	}
	if v.listenerError {
		return errListenerNotFound
	}
	return errLeaderNotAvailable
}
