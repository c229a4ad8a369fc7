package local

import (
	"context"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// clusterNameDefault is the LogCluster that topics made through Kafka name when no manifest gave
// one.
const clusterNameDefault = "dev"

// CreateTopic implements metadata.Admin.
func (s *Store) CreateTopic(_ context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	if t.Validate {
		return s.checkNewTopic(t)
	}
	var created *metadata.Topic
	err := s.change(func(d *document) (err error) {
		created, err = d.create(t)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The election came after create; the image has its result. A delete may have come between.
	if elected := s.Image().TopicByID(created.ID); elected != nil {
		created = elected
	}
	return created, nil
}

// checkNewTopic makes the topic on a copy that nobody sees.
func (s *Store) checkNewTopic(t metadata.NewTopic) (*metadata.Topic, error) {
	s.changing.Lock()
	d := s.changing.document.clone()
	s.changing.Unlock()
	created, err := d.create(t)
	if err != nil {
		return nil, err
	}
	created.ID = metadata.ID{}
	return created, nil
}

// create puts a new topic into the document and returns it as it is before the election: without
// leaders.
func (d *document) create(t metadata.NewTopic) (*metadata.Topic, error) {
	if _, exists := d.find(t.Name); exists {
		return nil, fmt.Errorf("%w: %q", metadata.ErrTopicExists, t.Name)
	}
	name := clusterNameDefault
	if d.Cluster != nil {
		name = d.Cluster.Name
	}
	resource, err := metadata.TopicResource(metadata.WithInternalDefaults(t, int32(d.Brokers),
		d.resource()), name, d.resource())
	if err != nil {
		return nil, err
	}
	if err := d.put(resource, originKafka); err != nil {
		return nil, err
	}
	at, _ := d.find(t.Name)
	return d.imageTopic(d.Topics[at])
}

// DeleteTopic implements metadata.Admin. A topic of a manifest comes back with the next Sync, as it
// would with the next apply on Kubernetes.
func (s *Store) DeleteTopic(_ context.Context, name string) error {
	return s.change(func(d *document) error {
		if !d.remove(name) {
			return fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
		}
		return nil
	})
}
