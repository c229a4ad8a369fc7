package kafkaclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

const (
	// requestTimeout limits the first metadata request.
	requestTimeout = 30 * time.Second
	// dialTimeout limits the time to connect to one broker. A pod's node may be lost, and the API
	// server then waits for it.
	dialTimeout = 10 * time.Second
)

// Options describe how to reach the brokers.
type Options struct {
	// Addresses contains the brokers' host:port by id, as the listener advertises them, as far as they
	// are known. At least one of these brokers must be reachable.
	Addresses map[int32]string
	// Seeds contains the brokers to which the metadata requests are sent, such as those whose pods are
	// ready; empty: all brokers in Addresses.
	Seeds []int32
	// Dial connects to the listener in a broker's pod.
	Dial func(ctx context.Context, broker int32) (net.Conn, error)
	// TLS is the TLS configuration for connections, without a server name; nil: no TLS.
	TLS *tls.Config
	// SASL authenticates connections; nil: no authentication.
	SASL sasl.Mechanism
}

// routes maps advertised addresses to brokers.
type routes struct {
	o  Options
	mu struct {
		sync.Mutex
		brokers map[string]int32 // broker id by host:port
	}
}

func newRoutes(o Options) *routes {
	r := &routes{o: o}
	r.mu.brokers = map[string]int32{}
	for id, address := range o.Addresses {
		r.mu.brokers[address] = id
	}
	return r
}

// seeds returns the addresses of the brokers to which the metadata requests are sent.
func (o *Options) seeds() []string {
	var addresses []string
	for id, address := range o.Addresses {
		if len(o.Seeds) == 0 || slices.Contains(o.Seeds, id) {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// client returns a Kafka client that uses dial for its connections.
func (r *routes) client(dial func(context.Context, string, string) (net.Conn, error),
	extra ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(r.o.seeds()...),
		kgo.Dialer(dial), kgo.ClientID("kubectl-heartwood"),
		kgo.RetryTimeout(requestTimeout)}
	if r.o.SASL != nil {
		options = append(options, kgo.SASL(r.o.SASL))
	}
	return kgo.NewClient(append(options, extra...)...)
}

// dial connects to an advertised address. If the address is unknown, it first requests the
// addresses from the brokers.
func (r *routes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, known := r.broker(address); !known {
		if err := r.discover(ctx); err != nil {
			return nil, err
		}
	}
	return r.dialKnown(ctx, network, address)
}

// dialKnown connects to a broker's known address.
func (r *routes) dialKnown(ctx context.Context, _, address string) (net.Conn, error) {
	id, known := r.broker(address)
	if !known {
		return nil, fmt.Errorf("connect to %s: no broker of the LogCluster advertises this address",
			address)
	}
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := r.o.Dial(within, id)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		// The error is not the context's error, because after that a client would not try another broker.
		err = &net.OpError{Op: "dial", Net: "tcp",
			Err: fmt.Errorf("broker %d did not answer within %s", id, dialTimeout)}
	}
	if err != nil || r.o.TLS == nil {
		return conn, err
	}
	config := r.o.TLS.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil {
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to broker %d with TLS: %w", id, err),
			conn.Close())
	}
	return secured, nil
}

func (r *routes) broker(address string) (id int32, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known = r.mu.brokers[address]
	return id, known
}

// discover requests the brokers' advertised addresses.
func (r *routes) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seeds, err := r.client(r.dialKnown)
	if err != nil {
		return err
	}
	defer seeds.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	response, err := request.RequestWith(ctx, seeds)
	if err != nil {
		return fmt.Errorf("request the addresses of the brokers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, broker := range response.Brokers {
		address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		r.mu.brokers[address] = broker.NodeID
	}
	return nil
}

// Reach returns the brokers' addresses, and the options with which another Kafka client can connect
// to them.
func Reach(o Options) (addresses []string, options []kgo.Opt) {
	options = []kgo.Opt{kgo.Dialer(newRoutes(o).dial)}
	if o.SASL != nil {
		options = append(options, kgo.SASL(o.SASL))
	}
	return o.seeds(), options
}

// Connect connects to the brokers. It fails if no broker accepts the credentials. The caller must
// close the client.
func Connect(ctx context.Context, o Options, extra ...kgo.Opt) (*kgo.Client, error) {
	r := newRoutes(o)
	if err := r.discover(ctx); err != nil {
		return nil, err
	}
	return r.client(r.dial, extra...)
}
