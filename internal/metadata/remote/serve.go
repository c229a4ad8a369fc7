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

// Backend is the store to which Serve passes one broker's requests.
type Backend interface {
	metadata.Store
	metadata.Admin
	metadata.Alterer
	metadata.Mover
	metadata.UserAdmin
	metadata.ShutdownAnnouncer
	metadata.RemovalRecorder
	metadata.VolumeReporter
}

// Serve answers one broker until the broker unregisters, its connection is closed, it sends nothing
// for sessionTimeout after its first request, or ctx ends. Serve returns nil only if the broker has
// unregistered. When Serve returns, the store regards the broker as down, and conn is closed.
func Serve(ctx context.Context, conn net.Conn, broker int32, backend Backend) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{conn: conn, broker: broker, backend: backend, end: cancel,
		slots: make(chan struct{}, requestsMax)}
	stopClosing := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := s.read(ctx)
	cancel()
	stopClosing()
	_ = conn.Close()
	s.running.Wait()
	if s.unregistered {
		return nil
	}
	return err
}

// session is the connection of one broker.
type session struct {
	conn    net.Conn
	broker  int32
	backend Backend
	end     context.CancelFunc
	slots   chan struct{} // channel with one token for each request in progress
	running sync.WaitGroup
	writing sync.Mutex

	// Only read uses the next two fields. stop ends the store's Run and waits until it has returned.
	// It is nil until the broker has registered.
	stop         func()
	unregistered bool
}

// read receives requests. It executes them concurrently and in any order. A broker that depends on
// an order waits for the reply to one request before it sends the next.
//
// The first request has no deadline, because the broker is not registered yet, and a new process
// may take long to start on a busy machine. If the process exits, its socket closes.
func (s *session) read(ctx context.Context) error {
	for {
		var r request
		if err := readFrame(s.conn, requestBytesMax, &r); err != nil {
			return err
		}
		if err := s.conn.SetReadDeadline(time.Now().Add(sessionTimeout)); err != nil {
			return err
		}
		switch {
		case r.Op == opHeartbeat:
			if r.Volume != nil {
				s.backend.ReportVolume(*r.Volume)
			}
		case r.Op == opRun:
			if s.stop != nil || r.Self == nil || r.Self.ID != s.broker {
				return fmt.Errorf("broker %d registered twice, or with another id", s.broker)
			}
			s.run(ctx, r)
		case r.Op == opStop:
			if s.stop != nil {
				s.stop()
			}
			s.unregistered = true
			return s.write(reply{ID: r.ID})
		default:
			s.slots <- struct{}{}
			s.running.Go(func() {
				defer func() { <-s.slots }()
				s.answer(ctx, r)
			})
		}
	}
}

// run registers the broker with the store, and sends images to the broker. It skips all images but
// the newest. The store's Run does not return while the broker is up, so run sends the reply
// together with the first image.
func (s *session) run(ctx context.Context, r request) {
	ctx, cancel := context.WithCancel(ctx)
	newest := make(chan *metadata.Image, 1)
	ended := make(chan struct{})
	s.stop = func() {
		cancel()
		<-ended
	}
	s.running.Go(func() {
		defer close(ended)
		first := true
		err := s.backend.Run(ctx, *r.Self, func(image *metadata.Image) {
			if first {
				first = false
				_ = s.write(reply{ID: r.ID}) // if the write fails, read fails too
			}
			select {
			case <-newest:
			default:
			}
			newest <- image // never blocks, because this is the only writer
		})
		if err != nil {
			failed := reply{ID: r.ID}
			failed.fail(err)
			_ = s.write(failed)
			s.end()
		}
	})
	s.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case i := <-newest:
				if s.write(reply{Image: i}) != nil {
					s.end()
					return
				}
			}
		}
	})
}

// answer executes one request and replies.
func (s *session) answer(ctx context.Context, r request) {
	answer := reply{ID: r.ID}
	var err error
	switch {
	case r.Op == opServing:
		err = s.backend.ReportServing(ctx, s.broker, r.Served)
	case r.Op == opChangeISR:
		answer.Parts = make([]part, len(r.Change))
		s.backend.ChangeISR(ctx, r.Change, func(i int, partitionEpoch int64, err error) {
			answer.Parts[i] = partOf(err)
			answer.Parts[i].PartitionEpoch = partitionEpoch
		})
	case r.Op == opLeave:
		err = s.backend.AnnounceShutdown(ctx)
	case r.Op == opRemoved:
		err = s.backend.RecordRemoved(ctx, s.broker, r.Removed)
	case r.Op == opCreate && r.Create != nil:
		answer.Topic, err = s.backend.CreateTopic(ctx, *r.Create)
	case r.Op == opDelete:
		err = s.backend.DeleteTopic(ctx, r.Name)
	case r.Op == opAlter && r.Alter != nil:
		err = s.backend.AlterTopic(ctx, *r.Alter)
	case r.Op == opCluster && r.Cluster != nil:
		err = s.backend.AlterCluster(ctx, *r.Cluster)
	case r.Op == opGrow && r.Grow != nil:
		err = s.backend.CreatePartitions(ctx, *r.Grow)
	case r.Op == opReassign:
		moves := make([]metadata.Move, len(r.Moves))
		for i, m := range r.Moves {
			moves[i] = metadata.Move{Topic: m.Topic, Partition: m.Partition, Replicas: m.Replicas,
				SameNumber: m.SameNumber}
		}
		answer.Parts = partsOf(s.backend.Reassign(ctx, moves))
	case r.Op == opElect:
		answer.Parts = partsOf(s.backend.ElectPreferred(ctx, r.Elect))
	case r.Op == opUser && r.User != nil:
		err = s.backend.ChangeUser(ctx, *r.User)
	case r.Op == opScram && r.Scram != nil:
		err = s.backend.AlterScram(ctx, *r.Scram)
	default:
		err = errors.New("unknown request")
	}
	if err != nil {
		answer.fail(err)
	}
	if s.write(answer) != nil {
		s.end()
	}
}

func partsOf(faults []error) []part {
	parts := make([]part, len(faults))
	for i, err := range faults {
		parts[i] = partOf(err)
	}
	return parts
}

// write sends one frame. If the broker reads nothing, read ends the session after sessionTimeout.
func (s *session) write(r reply) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeFrame(s.conn, r)
}
