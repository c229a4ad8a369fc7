package api

import (
	"heartwood.dev/heartwood/internal/metadata"
)

// Node is a broker with its endpoint on one listener.
type Node struct {
	ID int32
	metadata.Endpoint
	Rack string
}

// NodeOn returns a broker with its endpoint on a listener. ok is false if the broker has no
// endpoint on that listener, so clients of the listener cannot connect to it.
func NodeOn(b *metadata.Broker, listener string) (n Node, ok bool) {
	endpoint, ok := b.Endpoints.On(listener)
	return Node{ID: b.ID, Endpoint: endpoint, Rack: b.Rack}, ok
}

// Nodes returns the brokers that are up and have an endpoint on the given listener, sorted by id.
func Nodes(img *metadata.Image, listener string) []Node {
	all := make([]Node, 0, len(img.Brokers))
	for i := range img.Brokers {
		if n, ok := NodeOn(&img.Brokers[i], listener); ok {
			all = append(all, n)
		}
	}
	return all
}

// NullableRack returns the rack, or nil for a broker without a rack. Clients would interpret an
// empty string as a rack name.
func (n *Node) NullableRack() *string {
	if n.Rack == "" {
		return nil
	}
	return &n.Rack
}

// View is a metadata image together with the listener of the client, whose endpoints the response
// contains.
type View struct {
	Image    *metadata.Image
	Listener string
	// ListenerError is true if the client supports the error LISTENER_NOT_FOUND (Metadata 6 and
	// above).
	ListenerError bool
}

// CheckLeader returns nil if the client can connect to the partition's leader, and otherwise an
// error with the reason.
func (v *View) CheckLeader(p *metadata.Partition) error {
	leader, up := v.Image.Broker(p.Leader)
	if !up {
		return ErrLeaderNotAvailable
	}
	if _, ok := NodeOn(&leader, v.Listener); ok {
		return nil
	}
	if v.ListenerError {
		return errListenerNotFound
	}
	return ErrLeaderNotAvailable
}
