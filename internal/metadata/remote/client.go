package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// errClosed is why a request has no answer: it may have been done or not.
var errClosed = errors.New("the connection to the metadata store has ended")

// Client is a metadata.Store, Admin and ShutdownAnnouncer whose store is at the other end of a connection.
type Client struct {
	conn    net.Conn
	writing sync.Mutex
	waiting struct {
		sync.Mutex
		next    uint64
		replies map[uint64]chan reply // nil once the connection has ended
	}
}

// NewClient takes a connection whose other end is given to Serve; Run closes it.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn}
	c.waiting.replies = map[uint64]chan reply{}
	return c
}

// Run implements metadata.Store. It fails when the connection ends: the store takes this broker for
// dead then.
func (c *Client) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	images := make(chan *metadata.Image)
	broken := make(chan error, 1)
	running, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	defer func() { _ = c.conn.Close() }() // nobody is served any more, whatever it says
	helpers.Go(func() { broken <- c.read(running, images) })
	beating, stopBeating := context.WithCancel(running)
	defer stopBeating()
	helpers.Go(func() { c.beat(beating) })

	// Registering may take as long as an election is written; images may come before the answer.
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
			return fmt.Errorf("lose the metadata store: %w", err)
		case <-ctx.Done():
			stopBeating() // the goodbye is the last word
			return c.unregister(images)
		}
	}
}

// unregister says goodbye, so that the broker is down at once. Images that come meanwhile are for
// nobody. A store that does not answer, or does not even take the word, sees the connection end.
func (c *Client) unregister(images <-chan *metadata.Image) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = c.call(ctx, request{Op: opStop})
	}()
	for {
		select {
		case <-images:
		case <-said:
			return nil
		}
	}
}

// read takes replies and images until the connection ends; nobody waits for an answer after that.
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
			waits <- r // it holds one
		}
	}
}

// beat says again and again that this broker lives.
func (c *Client) beat(ctx context.Context) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.write(request{Op: opHeartbeat}) != nil {
			return // read finds out, too
		}
	}
}

// write sends one frame.
func (c *Client) write(r request) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return writeFrame(c.conn, r)
}

// call asks and waits for the answer. An error that is not the store's own leaves open what became
// of it.
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
		return reply{}, fmt.Errorf("ask the metadata store: %w", err)
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

// ReportServing implements metadata.Store; the store knows which broker speaks.
func (c *Client) ReportServing(ctx context.Context, _ int32, served []metadata.Served) error {
	_, err := c.call(ctx, request{Op: opServing, Served: served})
	return err
}

// ChangeISR implements metadata.Store.
func (c *Client) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled func(change int, err error)) {
	ctx, cancel := context.WithTimeout(ctx, metadata.ChangeISRTimeout)
	defer cancel()
	for i, err := range c.parts(ctx, request{Op: opChangeISR, Change: changes}, len(changes)) {
		settled(i, err)
	}
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer.
func (c *Client) AnnounceShutdown(ctx context.Context) error {
	_, err := c.call(ctx, request{Op: opLeave})
	return err
}

// CreateTopic implements metadata.Admin.
func (c *Client) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	answer, err := c.call(ctx, request{Op: opCreate, Create: &t})
	if err == nil && answer.Topic == nil {
		err = errors.New("the metadata store made a topic and did not say which")
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

// CreatePartitions implements metadata.Alterer.
func (c *Client) CreatePartitions(ctx context.Context, partitions metadata.NewPartitions) error {
	_, err := c.call(ctx, request{Op: opGrow, Grow: &partitions})
	return err
}

// Reassign implements metadata.Mover.
func (c *Client) Reassign(ctx context.Context, moves []metadata.Move) []error {
	asked := make([]move, len(moves))
	for i, m := range moves {
		asked[i] = move{metadata.PartitionRef{Topic: m.Topic, Partition: m.Partition}, m.Replicas}
	}
	return c.parts(ctx, request{Op: opReassign, Moves: asked}, len(moves))
}

// ElectPreferred implements metadata.Mover.
func (c *Client) ElectPreferred(ctx context.Context, partitions []metadata.PartitionRef) []error {
	return c.parts(ctx, request{Op: opElect, Elect: partitions}, len(partitions))
}

// parts asks for n things; what goes wrong with the request goes wrong with each.
func (c *Client) parts(ctx context.Context, r request, n int) []error {
	faults := make([]error, n)
	answer, err := c.call(ctx, r)
	if err == nil && len(answer.Parts) != n {
		err = fmt.Errorf("the metadata store answers %d of %d requests", len(answer.Parts), n)
	}
	for i := range faults {
		if faults[i] = err; err == nil {
			faults[i] = answer.Parts[i].err()
		}
	}
	return faults
}
