package local

import (
	"context"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// clusterNameDefault is the LogCluster name of topics that are created through Kafka without a
// LogCluster manifest.
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
	// The image has the result of the election. The topic may have been deleted already.
	if elected := s.Image().TopicByID(created.ID); elected != nil {
		created = elected
	}
	return created, nil
}

// checkNewTopic creates the topic in a discarded copy.
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

// create adds a topic to the document and returns it as before the election, without leaders.
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

// DeleteTopic implements metadata.Admin. The next Sync creates a topic of a manifest again, like
// the next apply on Kubernetes.
func (s *Store) DeleteTopic(_ context.Context, name string) error {
	return s.change(func(d *document) error {
		if !d.remove(name) {
			return fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
		}
		return nil
	})
}
