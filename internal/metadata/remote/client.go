package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// errClosed is the error of a request whose connection is closed before the reply arrives. It is
// then unknown whether the store has executed the request.
var errClosed = errors.New("connection to the metadata store closed")

// Client implements metadata.Store, Admin, Alterer, Mover, ShutdownAnnouncer, RemovalRecorder and
// VolumeReporter. It sends each call as a request to a store at the other end of a connection.
type Client struct {
	conn    net.Conn
	writing sync.Mutex
	volume  atomic.Pointer[v1alpha1.BrokerVolume] // last argument of ReportVolume
	waiting struct {
		sync.Mutex
		next uint64
		// replies contains the channels for replies, by request id; nil once the connection is closed.
		replies map[uint64]chan reply
	}
}

// NewClient returns a client for a connection whose other end Serve serves. Run closes the
// connection.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn}
	c.waiting.replies = map[uint64]chan reply{}
	return c
}

// Run implements metadata.Store. It fails when the connection is closed, because the store then
// regards this broker as down.
func (c *Client) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	images := make(chan *metadata.Image)
	broken := make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	defer func() { _ = c.conn.Close() }() // makes pending requests fail
	helpers.Go(func() { broken <- c.read(running, images) })
	heartbeats, stopHeartbeats := context.WithCancel(running)
	defer stopHeartbeats()
	helpers.Go(func() { c.heartbeat(heartbeats) })

	// Registration can take as long as the elections that it causes. Images may arrive before its
	// reply.
	registered := make(chan error, 1)
	helpers.Go(func() {
		_, err := c.call(running, request{Op: opRun, Self: &self})
		registered <- err
	})
	for {
		select {
		case image := <-images:
			apply(image)
		case err := <-registered:
			if err != nil {
				return err
			}
		case err := <-broken:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read from the metadata store: %w", err)
		case <-ctx.Done():
			stopHeartbeats() // heartbeats stop first, because unregister must be the last request
			return c.unregister(images)
		}
	}
}

// unregister notifies the store that the broker is stopping, so that the store regards the broker
// as down at once. It discards images until the reply arrives. If the store does not read the
// request or does not answer within sessionTimeout, the connection is closed.
func (c *Client) unregister(images <-chan *metadata.Image) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = c.call(ctx, request{Op: opStop})
	}()
	for {
		select {
		case <-images:
		case <-answered:
			return nil
		}
	}
}

// read receives replies and images until the connection is closed, and then makes all pending
// requests fail.
func (c *Client) read(ctx context.Context, images chan<- *metadata.Image) error {
	defer func() {
		c.waiting.Lock()
		defer c.waiting.Unlock()
		for _, waits := range c.waiting.replies {
			close(waits)
		}
		c.waiting.replies = nil
	}()
	for {
		var r reply
		if err := readFrame(c.conn, imageBytesMax, &r); err != nil {
			return err
		}
		if r.Image != nil {
			select {
			case images <- metadata.Indexed(r.Image):
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		c.waiting.Lock()
		waits := c.waiting.replies[r.ID]
		delete(c.waiting.replies, r.ID)
		c.waiting.Unlock()
		if waits != nil {
			waits <- r // does not block, because the channel is buffered
		}
	}
}

// heartbeat sends heartbeats until ctx ends.
func (c *Client) heartbeat(ctx context.Context) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.write(request{Op: opHeartbeat, Volume: c.volume.Load()}) != nil {
			return // read fails too, and Run returns read's error
		}
	}
}

func (c *Client) write(r request) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return writeFrame(c.conn, r)
}

// call sends a request and waits for its reply. After an error that the store itself did not
// return, the outcome of the request is unknown.
func (c *Client) call(ctx context.Context, r request) (reply, error) {
	waits := make(chan reply, 1)
	c.waiting.Lock()
	if c.waiting.replies == nil {
		c.waiting.Unlock()
		return reply{}, errClosed
	}
	c.waiting.next++
	r.ID = c.waiting.next
	c.waiting.replies[r.ID] = waits
	c.waiting.Unlock()
	defer func() {
		c.waiting.Lock()
		defer c.waiting.Unlock()
		delete(c.waiting.replies, r.ID)
	}()
	if err := c.write(r); err != nil {
		return reply{}, fmt.Errorf("send request to the metadata store: %w", err)
	}
	select {
	case answer, ok := <-waits:
		if !ok {
			return reply{}, errClosed
		}
		err := answer.err()
		return answer, err
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// ReportServing implements metadata.Store. The store identifies the broker by its connection.
func (c *Client) ReportServing(ctx context.Context, _ int32, served []metadata.Served) error {
	_, err := c.call(ctx, request{Op: opServing, Served: served})
	return err
}

// ChangeISR implements metadata.Store.
func (c *Client) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	ctx, cancel := context.WithTimeout(ctx, metadata.ChangeISRTimeout)
	defer cancel()
	parts, faults := c.parts(ctx, request{Op: opChangeISR, Change: changes}, len(changes))
	for i, err := range faults {
		settled(i, parts[i].PartitionEpoch, err)
	}
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer.
func (c *Client) AnnounceShutdown(ctx context.Context) error {
	_, err := c.call(ctx, request{Op: opLeave})
	return err
}

// RecordRemoved implements metadata.RemovalRecorder. The store identifies the broker by its
// connection.
func (c *Client) RecordRemoved(ctx context.Context, _ int32,
	removed []metadata.RetainedPartition) error {
	_, err := c.call(ctx, request{Op: opRemoved, Removed: removed})
	return err
}

// ReportVolume implements metadata.VolumeReporter. Each heartbeat contains the last report.
func (c *Client) ReportVolume(volume v1alpha1.BrokerVolume) { c.volume.Store(&volume) }

// CreateTopic implements metadata.Admin.
func (c *Client) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	answer, err := c.call(ctx, request{Op: opCreate, Create: &t})
	if err == nil && answer.Topic == nil {
		err = errors.New("reply of the metadata store has no topic")
	}
	return answer.Topic, err
}

// DeleteTopic implements metadata.Admin.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	_, err := c.call(ctx, request{Op: opDelete, Name: name})
	return err
}

// AlterTopic implements metadata.Alterer.
func (c *Client) AlterTopic(ctx context.Context, change metadata.TopicChange) error {
	_, err := c.call(ctx, request{Op: opAlter, Alter: &change})
	return err
}

// AlterCluster implements metadata.Alterer.
func (c *Client) AlterCluster(ctx context.Context, change metadata.ClusterChange) error {
	_, err := c.call(ctx, request{Op: opCluster, Cluster: &change})
	return err
}

// CreatePartitions implements metadata.Alterer.
func (c *Client) CreatePartitions(ctx context.Context, partitions metadata.NewPartitions) error {
	_, err := c.call(ctx, request{Op: opGrow, Grow: &partitions})
	return err
}

// Reassign implements metadata.Mover.
func (c *Client) Reassign(ctx context.Context, moves []metadata.Move) []error {
	asked := make([]move, len(moves))
	for i, m := range moves {
		asked[i] = move{metadata.PartitionRef{Topic: m.Topic, Partition: m.Partition}, m.Replicas,
			m.SameNumber}
	}
	_, faults := c.parts(ctx, request{Op: opReassign, Moves: asked}, len(moves))
	return faults
}

// ElectPreferred implements metadata.Mover.
func (c *Client) ElectPreferred(ctx context.Context, partitions []metadata.PartitionRef) []error {
	_, faults := c.parts(ctx, request{Op: opElect, Elect: partitions}, len(partitions))
	return faults
}

// ChangeUser implements metadata.UserAdmin.
func (c *Client) ChangeUser(ctx context.Context, change metadata.UserChange) error {
	_, err := c.call(ctx, request{Op: opUser, User: &change})
	return err
}

// AlterScram implements metadata.UserAdmin.
func (c *Client) AlterScram(ctx context.Context, change metadata.ScramChange) error {
	_, err := c.call(ctx, request{Op: opScram, Scram: &change})
	return err
}

// parts sends a request for n changes and returns the outcome and the error of each change. If the
// request fails, every change has the request's error.
func (c *Client) parts(ctx context.Context, r request, n int) (parts []part, faults []error) {
	parts, faults = make([]part, n), make([]error, n)
	answer, err := c.call(ctx, r)
	if err == nil && len(answer.Parts) != n {
		err = fmt.Errorf("reply of the metadata store has %d results, want %d", len(answer.Parts),
			n)
	}
	for i := range faults {
		if faults[i] = err; err == nil {
			parts[i], faults[i] = answer.Parts[i], answer.Parts[i].err()
		}
	}
	return parts, faults
}
