package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"sync"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// ErrNotWritten means that the file could not be written, so the change has no effect.
var ErrNotWritten = fmt.Errorf("%w: metadata file was not written",
	metadata.ErrUnavailable)

// Store stores a cluster's metadata in one file, and publishes them to the brokers in one process.
//
// Lock order: changing, then queue, published or volumes. Image, AwaitServing and the loop of Run
// acquire only published, so they never wait for the disk.
type Store struct {
	fs   vfs.FS
	file string
	// checkCluster validates a LogCluster; see CheckClusters. If it is nil, LogClusters are not
	// validated.
	checkCluster func(*v1alpha1.LogCluster) error

	// Invariants between changes: written equals encode(document), or is nil after a failed write.
	// published.image is the image of document, with the brokers in up. A failed change changes
	// neither the document nor the image.
	changing struct {
		sync.Mutex
		// electionsHeld is true if no elections take place until all brokers of a starting cluster are
		// up.
		electionsHeld bool
		document      document
		// written is the content of the file; nil if it is unknown. It is used to avoid writing the same
		// content again.
		written []byte
		// up contains the brokers whose Run is running. They are not stored in the file.
		up map[int32]metadata.Broker
		users
	}
	queue struct {
		sync.Mutex
		changes []*queuedChange // changes that no goroutine is making yet
	}
	volumes struct {
		sync.Mutex
		full map[int32]bool // brokers to which no new replicas are assigned; the map is immutable
	}
	requests  sync.WaitGroup // goroutines of the method request
	published struct {
		sync.Mutex
		image *metadata.Image
		// served contains the leader epoch of each partition that a broker serves, by broker.
		served map[int32]map[servedPartition]int32
		// changed is closed and replaced when image or served has changed. It is never nil.
		changed chan struct{}
	}
}

// servedPartition identifies a partition by topic id. A name would not suffice, because a topic can
// be deleted and created again with the same name.
type servedPartition struct {
	topic metadata.ID
	index int32
}

// Open reads the file. If the file does not exist, Open creates a new cluster and writes the file.
// If the file is unreadable or invalid, Open fails, because the existing records would not belong
// to a new cluster.
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
	if err := s.openUsers(); err != nil {
		return nil, err
	}
	// No broker is up, so elections would only begin new leader epochs.
	s.changing.electionsHeld = true
	err = s.change(func(*document) error { return nil })
	s.changing.electionsHeld = false
	return s, err
}

// CheckClusters sets the function that validates, by the schema's rules, a LogCluster changed by
// admin clients. It must be called before the first broker runs.
func (s *Store) CheckClusters(check func(*v1alpha1.LogCluster) error) { s.checkCluster = check }

// change applies f to the metadata, makes the resulting decisions, writes the file if its content
// has changed, and publishes the new image. If f or the write fails, nothing changes. Changes that
// wait for the lock at the same time are made together.
func (s *Store) change(f func(*document) error) error {
	c := &queuedChange{f: f}
	s.queue.Lock()
	s.queue.changes = append(s.queue.changes, c)
	s.queue.Unlock()
	s.changing.Lock()
	defer s.changing.Unlock()
	if !c.done { // another goroutine may already have made the change
		s.queue.Lock()
		changes := s.queue.changes
		s.queue.changes = nil
		s.queue.Unlock()
		s.changeAllLocked(changes)
	}
	return c.err
}

// request calls do for a client's request. It returns at the latest when ctx ends, because do waits
// for the disk and the client waits for an answer. After an error of ctx the outcome is unknown,
// and the caller must not use variables that do sets.
func (s *Store) request(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	s.requests.Go(func() { done <- do() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the metadata file: %w", ctx.Err())
	}
}

// Close waits for changes that continue after their request has ended. It must be called only when
// no broker uses the store any longer.
func (s *Store) Close() { s.requests.Wait() }

// changeLocked makes a change. The caller holds changing. The change modifies a clone that replaces
// the document after the write, so a failure needs no rollback.
func (s *Store) changeLocked(w electionOptions, f func(*document) error) error {
	d := s.changing.document.clone()
	d.full = s.fullBrokers()
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
	image.Security = s.securityOf(&d)
	content, err := d.encode()
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if !bytes.Equal(content, s.changing.written) {
		s.changing.written = nil // if the write fails, the content is unknown
		if err := vfs.WriteFileAtomic(s.fs, s.file, content); err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		s.changing.written = content
	}
	s.changing.document = d
	// Do not publish an equal image, because each broker iterates over all partitions when it applies
	// an image.
	if !reflect.DeepEqual(image, s.Image()) {
		s.publish(func() { s.published.image = image })
	}
	return nil
}

// publish applies f to the published state, and wakes the goroutines that wait for changes of this
// state.
func (s *Store) publish(f func()) {
	s.published.Lock()
	defer s.published.Unlock()
	f()
	close(s.published.changed)
	s.published.changed = make(chan struct{})
}

// Sync applies a complete list of manifests: topics that are not in it are not kept.
func (s *Store) Sync(cluster *v1alpha1.LogCluster, brokers int, topics []*v1alpha1.Topic) error {
	return s.Apply(&Manifests{Cluster: cluster, Brokers: brokers, Topics: topics})
}

// Apply applies manifests. It deletes topics of earlier manifests that are neither in m nor kept,
// according to their reclaim policies. Topics created through Kafka remain. If single topics are
// invalid, Apply applies the other topics and returns the joined errors.
//
// Replicas on removed brokers get a new target, and the removed brokers must run until these
// replicas have moved: see Running. If fewer brokers would remain than a topic has replicas, Apply
// changes nothing and returns ErrBrokersInUse.
func (s *Store) Apply(m *Manifests) error {
	var faults []error
	err := s.change(func(d *document) (err error) {
		faults, err = d.sync(m)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(faults...)
}

// SetRacks sets the racks of brokers: broker i is in racks[i % len(racks)]. The racks determine the
// placement of new replicas.
func (s *Store) SetRacks(racks []string) error {
	return s.change(func(d *document) error {
		d.Racks = racks
		return nil
	})
}

// Running returns how many brokers must run: the brokers of the last Sync, and removed brokers that
// still have replicas. Their ids start at 0.
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

// Keep lets admin clients change and delete the topics with the given Kafka names, because their
// manifests can no longer be read. The next Apply replaces this list.
func (s *Store) Keep(topics []string) error {
	return s.change(func(d *document) error {
		d.described = maps.Clone(d.described)
		for _, name := range topics {
			delete(d.described, name)
		}
		return nil
	})
}

// Manifests returns the effective result of the last Sync: the LogCluster (nil if there is no
// manifest), the number of brokers, and the topics that are in a manifest, sorted by Kafka name.
func (s *Store) Manifests() (cluster *v1alpha1.LogCluster, brokers int, topics []*v1alpha1.Topic) {
	s.changing.Lock()
	d := s.changing.document.clone()
	s.changing.Unlock()
	for _, t := range d.Topics {
		if t.Origin == originManifest {
			topics = append(topics, t.resource().DeepCopy())
		}
	}
	if d.Cluster != nil && d.Cluster.Origin != originKafka {
		cluster = d.resource().DeepCopy()
	}
	return cluster, d.Brokers, topics
}

// AwaitServing waits until the leaders serve every partition in the newest image. It does not wait
// for partitions whose records are lost (Lost), because they would never be served.
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

// LostPartition is a partition that stays offline, because all its in-sync replicas have lost their
// records.
type LostPartition struct {
	Topic     string
	Partition int32
	InSync    []int32 // brokers with the in-sync replicas
}

// Lost returns the partitions whose records are lost.
func (s *Store) Lost() (lost []LostPartition) {
	for _, t := range s.Image().Topics {
		for _, p := range t.Partitions {
			if p.RecordsLost {
				lost = append(lost, LostPartition{t.Name, p.Index, p.ISR})
			}
		}
	}
	return lost
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

// unservedLocked returns the name of a partition that its leader does not serve yet. It returns ""
// if all partitions are served, apart from partitions whose records are lost.
func (s *Store) unservedLocked() string {
	for _, t := range s.published.image.Topics {
		for _, p := range t.Partitions {
			if p.RecordsLost {
				continue
			}
			epoch, ok := s.published.served[p.Leader][servedPartition{t.ID, p.Index}]
			if !ok || epoch != p.LeaderEpoch {
				return fmt.Sprintf("partition %s-%d", t.Name, p.Index)
			}
		}
	}
	return ""
}
