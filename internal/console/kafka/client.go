package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/compress"
)

// requestTimeout limits one request to a broker.
const requestTimeout = 3 * time.Second

// browsesMax is the maximum number of concurrent browses, because each of them holds up to
// decompressedMax bytes of records.
const browsesMax = 4

// ErrBusy means that browsesMax other browses are running.
var ErrBusy = errors.New("other pages are reading messages; try again in a few seconds")

// errNoPartition means that the topic does not have the partition.
var errNoPartition = errors.New("the topic has no such partition")

// Unknown reports whether an error means that a topic or partition does not exist.
func Unknown(err error) bool {
	return errors.Is(err, errNoPartition) || errors.Is(err, kerr.UnknownTopicOrPartition) ||
		errors.Is(err, kerr.InvalidTopicException)
}

// Denied reports whether an error means that the ACLs do not permit the request.
func Denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.GroupAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed)
}

// Client reads from one cluster, and makes the few changes that the console offers.
type Client struct {
	client  *kgo.Client
	admin   *kadm.Client
	browses chan struct{} // with one element for each running browse
	tails   chan struct{} // with one element for each open Tail
}

// New returns a client for the brokers at bootstrap (HOST:PORT). further contains other franz-go
// options, such as TLS and SASL. New does not connect.
func New(bootstrap []string, further ...kgo.Opt) (*Client, error) {
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.ClientID("heartwood-console"),
		kgo.MetadataMinAge(time.Second), kgo.DialTimeout(requestTimeout),
		kgo.RequestRetries(1), kgo.RetryTimeout(requestTimeout),
		kgo.RecordPartitioner(chosenPartitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.AllowIdempotentProduceCancellation(),
	}, further...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("create kafka client: %w", err)
	}
	return &Client{client: client, admin: kadm.NewClient(client),
		browses: make(chan struct{}, browsesMax), tails: make(chan struct{}, tailsMax)}, nil
}

// Through is an option for New. dial connects to a broker's address.
func Through(dial func(ctx context.Context, network, address string) (net.Conn, error)) kgo.Opt {
	return kgo.Dialer(dial)
}

// Close closes the connections.
func (c *Client) Close() { c.client.Close() }

// budget is a kgo.Decompressor that fails once the total decompressed size exceeds left.
type budget struct{ left int }

var errBudget = errors.New("the records are larger than one page may read")

// Decompress implements kgo.Decompressor.
func (b *budget) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		b.left -= len(src)
		return src, nil
	}
	if b.left <= 0 {
		return nil, errBudget
	}
	out, err := compress.Decompress(nil, src, compress.Codec(codec), b.left)
	if errors.Is(err, compress.ErrTooLarge) {
		return nil, errBudget
	}
	if err != nil {
		return nil, fmt.Errorf("decompress batch: %w", err)
	}
	b.left -= len(out)
	return out, nil
}
