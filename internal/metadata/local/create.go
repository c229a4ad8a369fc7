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
func (s *Store) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	var created *metadata.Topic
	err := s.request(ctx, func() (err error) {
		if t.Validate {
			created, err = s.checkNewTopic(t)
			return err
		}
		return s.change(func(d *document) (err error) {
			created, err = d.create(t, s.changing.up)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if t.Validate {
		return created, nil
	}
	// In the image, the topic has its elected leaders. If the topic has already been deleted, the
	// image does not contain it.
	if elected := s.Image().TopicByID(created.ID); elected != nil {
		created = elected
	}
	return created, nil
}

// checkNewTopic validates a request by creating the topic in a copy of the document that is then
// discarded.
func (s *Store) checkNewTopic(t metadata.NewTopic) (*metadata.Topic, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	d := s.changing.document.clone()
	d.full = s.fullBrokers()
	created, err := d.create(t, s.changing.up)
	if err != nil {
		return nil, err
	}
	created.ID = metadata.ID{}
	return created, nil
}

// create adds a topic to the document and returns it. The topic has no leaders yet; the election
// follows.
func (d *document) create(t metadata.NewTopic, up map[int32]metadata.Broker) (*metadata.Topic,
	error) {
	if _, exists := d.find(t.Name); exists {
		return nil, fmt.Errorf("%w: %q", metadata.ErrTopicExists, t.Name)
	}
	if err := metadata.CheckAssignment(t.Assignment, 0, int(t.Replicas), d.states(up)); err != nil {
		return nil, err
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
	index, _ := d.find(t.Name)
	return d.imageTopic(d.Topics[index], up)
}

// states returns the states of the brokers, which are used to validate an assignment. up contains
// the brokers that are up.
func (d *document) states(up map[int32]metadata.Broker) metadata.Brokers {
	return metadata.Brokers{
		Exists: func(id int32) bool { return id >= 0 && int(id) < d.Brokers },
		Up: func(id int32) bool {
			broker, ok := up[id]
			return ok && !broker.Leaving
		},
	}
}

// DeleteTopic implements metadata.Admin. It rejects the deletion of a topic that is in a manifest
// (ADR 0160).
func (s *Store) DeleteTopic(ctx context.Context, name string) error {
	return s.request(ctx, func() error {
		return s.change(func(d *document) error {
			index, err := d.changeable(name, "remove")
			if err == nil {
				d.remove(index)
			}
			return err
		})
	})
}
