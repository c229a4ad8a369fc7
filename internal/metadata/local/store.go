package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrNotWritten is returned if the file could not be written. The change has no effect.
var ErrNotWritten = fmt.Errorf("%w: metadata file was not written",
	metadata.ErrUnavailable)

// Store stores the metadata of a cluster in one file and publishes it to the brokers of one
// process.
//
// Lock order: changing, published. Image, AwaitServing and the loop of Run take only published, so
// they never wait for the disk.
type Store struct {
	fs   vfs.FS
	file string

	// Between changes, written is encode(document), or nil after a failed write, and
	// published.image is the image of document with the brokers in up. A failed change modifies
	// neither document nor image.
	changing struct {
		sync.Mutex
		electionsHeld bool // no elections until the brokers of a starting cluster are up
		document      document
		// content of the file, to skip writes that change nothing; nil: unknown
		written []byte
		// brokers whose Run is running; not part of the file
		up map[int32]metadata.Broker
	}
	published struct {
		sync.Mutex
		image *metadata.Image
		// leader epoch of each partition that a broker serves, by broker
		served map[int32]map[servedPartition]int32
		// closed and replaced when a field above has changed; never nil
		changed chan struct{}
	}
}

// servedPartition identifies a partition by topic id, because a later topic of the same name is a
// different one.
type servedPartition struct {
	topic metadata.ID
	index int32
}

// Open reads the file, or creates a new cluster and writes it. A file that is unreadable or invalid
// is an error and never a new cluster, to which existing records would not belong.
func Open(fsys vfs.FS, file string) (*Store, error) {
	s := &Store{fs: fsys, file: file}
	s.changing.up = map[int32]metadata.Broker{}
	s.published.served = map[int32]map[servedPartition]int32{}
	s.published.changed = make(chan struct{})

	content, err := fsys.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.changing.document = newDocument()
	case err != nil:
		return nil, fmt.Errorf("read metadata: %w", err)
	default:
		if s.changing.document, err = decode(content); err != nil {
			return nil, fmt.Errorf("read metadata %s: %w", file, err)
		}
		s.changing.written = content
	}
	if err := s.change(func(*document) error { return nil }); err != nil {
		return nil, err
	}
	return s, nil
}

// change applies f to the metadata, makes the resulting decisions, writes the file if its content
// has changed, and publishes the new image. If f or the write fails, nothing has changed.
func (s *Store) change(f func(*document) error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(electionOptions{}, f)
}

// changeLocked modifies a clone and installs it after the write, so a failure needs no rollback.
func (s *Store) changeLocked(w electionOptions, f func(*document) error) error {
	d := s.changing.document.clone()
	if err := f(&d); err != nil {
		return err
	}
	if !s.changing.electionsHeld {
		d.decide(s.changing.up, w)
	}
	image, err := d.image(s.changing.up)
	if err != nil {
		return err
	}
	content, err := d.encode()
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if !bytes.Equal(content, s.changing.written) {
		s.changing.written = nil // unknown if the write fails
		if err := vfs.WriteFileAtomic(s.fs, s.file, content); err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		s.changing.written = content
	}
	s.changing.document = d
	// an apply visits all partitions in each broker, so skip unchanged images
	if !reflect.DeepEqual(image, s.Image()) {
		s.publish(func() { s.published.image = image })
	}
	return nil
}

// publish applies f to the published state and wakes its readers.
func (s *Store) publish(f func()) {
	s.published.Lock()
	defer s.published.Unlock()
	f()
	close(s.published.changed)
	s.published.changed = make(chan struct{})
}

// Sync applies manifests. It deletes topics of earlier manifests that are no longer present,
// according to their reclaim policy; topics created through Kafka stay. Faults of single topics are
// returned joined, and the other topics are applied. Replicas on removed brokers get a new target,
// and those brokers must run until the replicas have moved: see Running. ErrBrokersInUse is
// returned if there would be fewer brokers than replicas; nothing has changed then.
func (s *Store) Sync(cluster *v1alpha1.LogCluster, brokers int, topics []*v1alpha1.Topic) error {
	var faults []error
	err := s.change(func(d *document) (err error) {
		faults, err = d.sync(manifests{cluster, brokers, topics})
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(faults...)
}

// SetRacks sets the racks of brokers: broker i is in racks[i % len(racks)]. They determine the
// placement of new replicas.
func (s *Store) SetRacks(racks []string) error {
	return s.change(func(d *document) error {
		d.Racks = racks
		return nil
	})
}

// Running returns the number of brokers to run, with ids from 0: those of the last Sync, and
// removed ones that still hold replicas.
func (s *Store) Running() int {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changing.document.running()
}

// Image returns the newest image.
func (s *Store) Image() *metadata.Image {
	s.published.Lock()
	defer s.published.Unlock()
	return s.published.image
}

// Manifests returns the effective result of the last Sync: the LogCluster (nil without one), the
// number of brokers, and the topics of manifests, sorted by Kafka name.
func (s *Store) Manifests() (cluster *v1alpha1.LogCluster, brokers int, topics []*v1alpha1.Topic) {
	s.changing.Lock()
	d := s.changing.document.clone()
	s.changing.Unlock()
	for _, t := range d.Topics {
		if t.Origin == originManifest {
			topics = append(topics, t.resource().DeepCopy())
		}
	}
	return d.resource().DeepCopy(), d.Brokers, topics
}

// AwaitServing waits until every partition of the newest image is served by its leader.
func (s *Store) AwaitServing(ctx context.Context) error {
	for {
		s.published.Lock()
		waiting, changed := s.unservedLocked(), s.published.changed
		s.published.Unlock()
		if waiting == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be served: %w", waiting, ctx.Err())
		}
	}
}

// AwaitBrokers waits until n brokers are up.
func (s *Store) AwaitBrokers(ctx context.Context, n int) error {
	for {
		s.published.Lock()
		up, changed := len(s.published.image.Brokers), s.published.changed
		s.published.Unlock()
		if up >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d brokers, of which %d are up: %w", n, up, ctx.Err())
		}
	}
}

// unservedLocked returns the name of a partition that its leader does not serve yet; "" if there is
// none.
func (s *Store) unservedLocked() string {
	for _, t := range s.published.image.Topics {
		for _, p := range t.Partitions {
			epoch, ok := s.published.served[p.Leader][servedPartition{t.ID, p.Index}]
			if !ok || epoch != p.LeaderEpoch {
				return fmt.Sprintf("partition %s-%d", t.Name, p.Index)
			}
		}
	}
	return ""
}
