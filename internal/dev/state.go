package dev

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/metadata/local"
)

// state is the cluster that manifests and flags request.
type state struct {
	cluster *v1alpha1.LogCluster
	topics  []*v1alpha1.Topic
	users   []*v1alpha1.LogUser
	brokers int
	// keepCluster is set if the metadata store contains the cluster but no manifest does.
	keepCluster bool
	keptTopics  []string // Kafka names of topics that remain without a manifest

	// set contains the manifests; nil: there are none, and the state is the content of the metadata
	// store.
	set         *manifest.Set
	brokersFlag bool // true if --brokers has set brokers
}

// newState returns the state that manifests and flags request. Parameter kept contains the
// resources that remain although no manifest contains them.
func newState(set *manifest.Set, opts Options, store *local.Store, kept []absence) state {
	s := state{cluster: set.Cluster, topics: set.Topics, users: set.Users, brokers: 1, set: set}
	stored, _, _ := store.Manifests()
	for _, a := range kept {
		switch {
		case a.topic != "":
			s.keptTopics = append(s.keptTopics, a.topic)
		case stored != nil && a.resource == "LogCluster/"+stored.Name:
			s.cluster, s.keepCluster = stored, true
		}
	}
	for _, user := range store.Users() {
		if slices.ContainsFunc(kept, func(a absence) bool {
			return a.resource == "LogUser/"+user.Name
		}) {
			s.users = append(slices.Clone(s.users), user)
		}
	}
	if s.cluster != nil {
		s.brokers = int(s.cluster.Spec.Brokers)
	}
	s.setBrokers(opts)
	return s
}

// storedState returns the state in the metadata store. It is used if there are no manifests.
func storedState(opts Options, store *local.Store) (s state) {
	var topics []*v1alpha1.Topic
	s.cluster, s.brokers, topics = store.Manifests()
	s.users, s.keepCluster = store.Users(), s.cluster != nil
	for _, topic := range topics {
		s.keptTopics = append(s.keptTopics, topic.KafkaName())
	}
	s.setBrokers(opts)
	return s
}

// setBrokers applies the flag --brokers.
func (s *state) setBrokers(opts Options) {
	if opts.Brokers != 0 {
		s.brokers, s.brokersFlag = opts.Brokers, true
	}
}

// loadManifests loads manifests. It returns nil if there are no paths.
func loadManifests(paths []string) (*manifest.Set, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	return manifest.Load(paths)
}

// revertInvalidUpdates replaces each topic that has an invalid update by the stored topic, and
// returns the faults. It validates an update against the stored topic, as the API server does.
func (s *state) revertInvalidUpdates(store *local.Store) error {
	_, _, before := store.Manifests()
	var faults []error
	for i, topic := range s.topics {
		index := slices.IndexFunc(before,
			func(old *v1alpha1.Topic) bool { return old.Name == topic.Name })
		if index < 0 {
			continue
		}
		if topic.Spec.Partitions == 0 { // kubectl apply also keeps a field that it never set
			topic.Spec.Partitions = before[index].Spec.Partitions
		}
		if err := manifest.CheckUpdate(before[index], topic); err != nil {
			faults = append(faults, s.located(err))
			s.topics[i] = before[index]
		}
	}
	return errors.Join(faults...)
}

// revertBrokers restores the running number of brokers, because the number cannot change while the
// cluster runs. It returns an error if another number is requested.
func (s *state) revertBrokers(running int) error {
	if s.brokers == running {
		return nil
	}
	fault := s.brokersFault(
		fmt.Sprintf("heartwood dev runs %d; restart it to change their number", running),
	)
	s.brokers = running
	return fault
}

// listeners returns the cluster's listeners.
func (s *state) listeners() v1alpha1.Listeners {
	if s.cluster == nil {
		return v1alpha1.Listeners(nil).OrDefault()
	}
	return s.cluster.Spec.Listeners.OrDefault()
}

// secured reports whether brokers need certificates.
func (s *state) secured() bool { return s.cluster != nil && s.cluster.Spec.Secured() }

// clusterName returns the name of the LogCluster, or "" if there is none.
func (s *state) clusterName() string {
	if s.cluster == nil {
		return ""
	}
	return s.cluster.Name
}

// revertListeners restores the running brokers' listeners, because they cannot change while the
// cluster runs. It returns an error if other listeners are requested.
func (s *state) revertListeners(running *state) error {
	if s.secured() == running.secured() &&
		reflect.DeepEqual(s.listeners(), running.listeners()) {
		return nil
	}
	if s.cluster == nil || running.cluster == nil {
		return errors.New("the listeners changed: restart heartwood dev")
	}
	fault := &manifest.Error{Resource: "LogCluster/" + s.cluster.Name, Message: "spec.listeners: " +
		"Invalid value: listeners and peers cannot change while heartwood dev runs: restart it"}
	s.cluster = s.cluster.DeepCopy()
	s.cluster.Spec.Listeners, s.cluster.Spec.Peers = running.cluster.Spec.Listeners,
		running.cluster.Spec.Peers
	s.cluster.Spec.Authorization = running.cluster.Spec.Authorization
	return s.located(fault)
}

// sync applies the state to the metadata store. An error in one topic does not affect other topics
// (local.Store.Apply).
func (s *state) sync(store *local.Store, security *security) error {
	verifiers, err := security.verifiers(s.users)
	if err == nil {
		err = store.SyncUsers(s.users, verifiers)
	}
	synced := store.Apply(&local.Manifests{Cluster: s.cluster, KeepCluster: s.keepCluster,
		Brokers: s.brokers, Topics: s.topics, KeepTopics: s.keptTopics})
	if errors.Is(synced, local.ErrBrokersInUse) {
		return errors.Join(err, s.brokersFault(synced.Error()))
	}
	return errors.Join(err, s.located(synced))
}

// brokersFault returns an error about the number of brokers. It names the flag or manifest that
// contains the number.
func (s *state) brokersFault(reason string) error {
	switch {
	case s.brokersFlag:
		return fmt.Errorf("--brokers %d: %s", s.brokers, reason)
	case s.cluster == nil:
		return fmt.Errorf("no LogCluster in the manifests, so %d broker: %s", s.brokers, reason)
	}
	fault := field.Invalid(field.NewPath("spec", "brokers"), s.brokers, reason)
	return s.located(&manifest.Error{Resource: "LogCluster/" + s.cluster.Name,
		Message: fault.Error()})
}

// located adds the file name to each error about a resource.
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

// faults returns the errors that errors.Join has combined, recursively. For nil it returns none.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // implemented by the result of errors.Join
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
