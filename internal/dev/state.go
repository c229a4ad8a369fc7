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

	set         *manifest.Set // where the above was read; nil: from the store
	brokersFlag bool          // brokers is the flag's
}

// newState returns the state that manifests (nil: none were given) and flags ask for. Without
// manifests it is the one the store holds: who forgets -f must not lose the topics that manifests
// made.
func newState(set *manifest.Set, opts Options, store *local.Store) state {
	var s state
	if set == nil {
		s.cluster, s.brokers, s.topics = store.Manifests()
	} else {
		s = state{cluster: set.Cluster, topics: set.Topics, brokers: 1, set: set}
		if set.Cluster != nil {
			s.brokers = int(set.Cluster.Spec.Brokers)
		}
	}
	if opts.Brokers != 0 {
		s.brokers, s.brokersFlag = opts.Brokers, true
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

// keepForbidden puts back each topic that may not become what the manifests say now, and returns
// why. The API server checks each update against the object that it holds; here that is what the
// last sync left in the store.
func (s *state) keepForbidden(store *local.Store) error {
	_, _, before := store.Manifests()
	var faults []error
	for i, topic := range s.topics {
		at := slices.IndexFunc(before,
			func(old *v1alpha1.Topic) bool { return old.Name == topic.Name })
		if at < 0 {
			continue
		}
		if err := manifest.CheckUpdate(before[at], topic); err != nil {
			faults = append(faults, s.located(err))
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
	fault := s.brokersFault(
		fmt.Sprintf("heartwood dev runs %d; start it again to change their number", running),
	)
	s.brokers = running
	return fault
}

// sync applies the state. Faults of single topics leave the others in effect (see
// local.Store.Sync).
func (s *state) sync(store *local.Store) error {
	err := store.Sync(s.cluster, s.brokers, s.topics)
	if errors.Is(err, local.ErrBrokersInUse) {
		return s.brokersFault(err.Error())
	}
	return s.located(err)
}

// brokersFault says what is wrong with the number of brokers, naming what gave it.
func (s *state) brokersFault(why string) error {
	switch {
	case s.brokersFlag:
		return fmt.Errorf("--brokers %d: %s", s.brokers, why)
	case s.cluster == nil:
		return fmt.Errorf("no LogCluster in the manifests, so %d broker: %s", s.brokers, why)
	}
	fault := field.Invalid(field.NewPath("spec", "brokers"), s.brokers, why)
	return s.located(&manifest.Error{Resource: "LogCluster/" + s.cluster.Name,
		Message: fault.Error()})
}

// located adds to faults of resources the file that has each: those who found them saw no files.
func (s *state) located(err error) error {
	if s.set == nil {
		return err
	}
	var all []error
	for _, fault := range faults(err) {
		var ofManifest *manifest.Error
		var ofTopic *local.TopicFault
		switch {
		case errors.As(fault, &ofManifest):
			fault = &manifest.Error{File: s.set.File(ofManifest.Resource),
				Resource: ofManifest.Resource, Message: ofManifest.Message}
		case errors.As(fault, &ofTopic):
			resource := "Topic/" + ofTopic.Resource
			fault = &manifest.Error{File: s.set.File(resource), Resource: resource,
				Message: ofTopic.Err.Error()}
		}
		all = append(all, fault)
	}
	return errors.Join(all...)
}

// faults are the single errors that were joined, however deep; none for nil.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // what errors.Join made, and nothing else
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, faults(one)...)
	}
	return all
}
