package handler

import (
	"heartwood.dev/heartwood/internal/metadata"
)

// node is a broker with the endpoint that clients of one listener use.
type node struct {
	ID int32
	metadata.Endpoint
	Rack string
}

// nodeOn returns a broker with its endpoint on a listener. The result ok is false if the broker has
// no endpoint on that listener, so that clients of the listener cannot reach it.
func nodeOn(b *metadata.Broker, listener string) (n node, ok bool) {
	endpoint, ok := b.Endpoints.On(listener)
	return node{ID: b.ID, Endpoint: endpoint, Rack: b.Rack}, ok
}

// nodes returns the brokers that are up and have an endpoint on the given listener, sorted by id.
func nodes(img *metadata.Image, listener string) []node {
	all := make([]node, 0, len(img.Brokers))
	for i := range img.Brokers {
		if n, ok := nodeOn(&img.Brokers[i], listener); ok {
			all = append(all, n)
		}
	}
	return all
}

// rack returns the rack, or nil for a broker without a rack: clients would treat an empty string as
// the name of a rack.
func (n *node) rack() *string {
	if n.Rack == "" {
		return nil
	}
	return &n.Rack
}

// view is a metadata image together with the listener of the client that receives a response from
// it.
type view struct {
	image    *metadata.Image
	listener string
	// listenerError is set if the client understands LISTENER_NOT_FOUND (Metadata 6 and above).
	listenerError bool
}

// checkLeader returns nil if the client can connect to the leader of a partition, otherwise an
// error with the reason.
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
