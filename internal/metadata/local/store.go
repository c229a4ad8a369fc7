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

// ErrNotWritten is wrapped when the disk failed; the change did not happen.
var ErrNotWritten = fmt.Errorf("%w: the file that holds it was not written",
	metadata.ErrUnavailable)

// Store keeps a cluster's metadata in one file and hands it to the brokers of one process.
// It makes the same decisions (placement, election) as the operator, through internal/placement.
//
// Lock order: changing, then shown. Image, AwaitServing and the loop of Run take shown only, so
// they never wait for the disk.
type Store struct {
	fs   vfs.FS
	file string

	// Between changes: written == encode(document), or nil after a write that failed, and
	// shown.image is document's image with up's brokers. A change that fails leaves document and
	// image as they were.
	changing struct {
		sync.Mutex
		held     bool // no election yet: brokers of a cluster that starts are awaited
		document document
		// what the file holds, so that an election that changes no epoch costs no sync; nil: not
		// known
		written []byte
		// those whose Run runs; not in the file: after a start nobody is up
		up map[int32]metadata.Broker
	}
	shown struct {
		sync.Mutex
		image *metadata.Image
		// by broker: the leader epoch of each partition it serves
		served map[int32]map[servedPartition]int32
		// never nil; closed, and made anew, when something above changed
		news chan struct{}
	}
}

// servedPartition names a partition by the topic's id: a later topic of the same name is not served
// yet.
type servedPartition struct {
	topic metadata.ID
	index int32
}

// Open reads the file, or begins a new cluster and writes it. A file that cannot be read or breaks
// a rule is an error, never a new cluster: that would take the records of the old one for nobody's.
func Open(fsys vfs.FS, file string) (*Store, error) {
	s := &Store{fs: fsys, file: file}
	s.changing.up = map[int32]metadata.Broker{}
	s.shown.served = map[int32]map[servedPartition]int32{}
	s.shown.news = make(chan struct{})

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

// change applies f to the metadata, decides what follows from it, writes the file if its content
// changed, and shows the new image. When f or the writing fails, nothing has changed.
func (s *Store) change(f func(*document) error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changeLocked(wishes{}, f)
}

// changeLocked works on a clone and puts it in place as its last step, after the write, so nothing
// has to be undone on a failure.
func (s *Store) changeLocked(w wishes, f func(*document) error) error {
	d := s.changing.document.clone()
	if err := f(&d); err != nil {
		return err
	}
	if !s.changing.held {
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
		s.changing.written = nil // should the write fail, nobody knows what the file holds
		if err := vfs.WriteFileAtomic(s.fs, s.file, content); err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		s.changing.written = content
	}
	s.changing.document = d
	// an apply costs each broker a walk over all partitions
	if !reflect.DeepEqual(image, s.Image()) {
		s.show(func() { s.shown.image = image })
	}
	return nil
}

// show changes what readers see and wakes those that wait for it.
func (s *Store) show(f func()) {
	s.shown.Lock()
	defer s.shown.Unlock()
	f()
	close(s.shown.news)
	s.shown.news = make(chan struct{})
}

// Sync makes the cluster what the manifests say. Topics that came from earlier manifests and are in
// them no longer are deleted, as their reclaim policy says; those made through Kafka stay. Faults
// concern single topics and come joined; the other topics are in effect then. Of brokers that are
// no more wanted the replicas move away; they are needed until then: see Running. ErrBrokersInUse
// is wrapped when there would be fewer brokers than replicas; nothing has changed then.
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

// SetRacks says where brokers are: broker i in racks[i % len(racks)]; none: nowhere. New replicas
// are placed by it.
func (s *Store) SetRacks(racks []string) error {
	return s.change(func(d *document) error {
		d.Racks = racks
		return nil
	})
}

// Running is how many brokers are to run, ids from 0: those that Sync asked for, and those above
// them that hold replicas still.
func (s *Store) Running() int {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.changing.document.running()
}

// Image returns the newest image.
func (s *Store) Image() *metadata.Image {
	s.shown.Lock()
	defer s.shown.Unlock()
	return s.shown.image
}

// Manifests returns what the last Sync was given and is still in effect: the LogCluster (nil
// without one), the number of brokers, and the topics that came from manifests, sorted by the name
// clients use.
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
		s.shown.Lock()
		waiting, news := s.unservedLocked(), s.shown.news
		s.shown.Unlock()
		if waiting == "" {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be served: %w", waiting, ctx.Err())
		}
	}
}

// AwaitBrokers waits until n brokers are up.
func (s *Store) AwaitBrokers(ctx context.Context, n int) error {
	for {
		s.shown.Lock()
		up, news := len(s.shown.image.Brokers), s.shown.news
		s.shown.Unlock()
		if up >= n {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d brokers, %d are up: %w", n, up, ctx.Err())
		}
	}
}

// unservedLocked names a partition that its leader does not serve yet; empty if there is none.
func (s *Store) unservedLocked() string {
	for _, t := range s.shown.image.Topics {
		for _, p := range t.Partitions {
			epoch, ok := s.shown.served[p.Leader][servedPartition{t.ID, p.Index}]
			if !ok || epoch != p.LeaderEpoch {
				return fmt.Sprintf("partition %s-%d", t.Name, p.Index)
			}
		}
	}
	return ""
}
