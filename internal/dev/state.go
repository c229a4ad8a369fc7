package dev

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/metadata/local"
)

// state is the cluster that manifests and flags ask for.
type state struct {
	cluster *v1alpha1.LogCluster
	topics  []*v1alpha1.Topic
	brokers int
}

// newState returns the state that manifests (nil: none were given) and flags ask for. Without manifests it is the one the store
// holds: who forgets -f must not lose the topics that manifests made.
func newState(set *manifest.Set, opts Options, store *local.Store) state {
	var s state
	if set == nil {
		s.cluster, s.brokers, s.topics = store.Manifests()
	} else {
		s = state{set.Cluster, set.Topics, 1}
		if set.Cluster != nil {
			s.brokers = int(set.Cluster.Spec.Brokers)
		}
	}
	if opts.Brokers != 0 {
		s.brokers = opts.Brokers
	}
	return s
}

// loadManifests returns nil when there are none to load.
func loadManifests(paths []string) (*manifest.Set, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	return manifest.Load(paths)
}

// keepForbidden puts back each topic that may not become what the manifests say now, and returns why.
func (s *state) keepForbidden(store *local.Store) error {
	_, _, before := store.Manifests()
	var faults []error
	for i, topic := range s.topics {
		at := slices.IndexFunc(before, func(old *v1alpha1.Topic) bool { return old.Name == topic.Name })
		if at < 0 {
			continue
		}
		if err := manifest.CheckUpdate(before[at], topic); err != nil {
			faults = append(faults, err)
			s.topics[i] = before[at]
		}
	}
	return errors.Join(faults...)
}

// keepBrokers puts the number of brokers back: they are started once.
func (s *state) keepBrokers(running int) error {
	if s.brokers == running {
		return nil
	}
	fault := field.Invalid(field.NewPath("spec", "brokers"), s.brokers, fmt.Sprintf(
		"heartwood dev runs %d; start it again to change their number", running))
	s.brokers = running
	return fault
}

func (s *state) sync(store *local.Store) error { return store.Sync(s.cluster, s.brokers, s.topics) }
