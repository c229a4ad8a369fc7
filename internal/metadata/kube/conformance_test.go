package kube

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/volumes"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/metadatatest"
)

// world is the LogCluster demo in a namespace of a real API server. It uses the operator's packages
// to decide on assignments, elections, and new volumes of brokers.
type world struct {
	*fixture
	killed     map[int32]*atomic.Bool
	writesFail atomic.Bool
	block      atomic.Pointer[blocked]
	leases     map[int32]lease.Observation
}

// testConformance runs the test suite for metadata stores.
func testConformance(t *testing.T, config *rest.Config) {
	metadatatest.Run(t, metadatatest.Kube, func(t testing.TB) metadatatest.World {
		f := newFixture(t.(*testing.T), config)
		f.create(f.owned(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.ScramAdminSecretName("demo")}}))
		return &world{fixture: f, killed: map[int32]*atomic.Bool{},
			leases: map[int32]lease.Observation{}}
	})
}

func (w *world) Open(t testing.TB, broker int32) metadatatest.Store {
	config, killed := rest.CopyConfig(w.config), &atomic.Bool{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			if killed.Load() {
				return nil, errors.New("the broker is killed")
			}
			if w.writesFail.Load() && isWrite(request) {
				return nil, errors.New("the API server fails")
			}
			if block := w.block.Load(); block != nil && isWrite(request) {
				if err := block.wait(request); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(request)
		})
	})
	store, err := New(Options{Config: config, Namespace: w.namespace, Cluster: "demo",
		times: lasting})
	if err != nil {
		t.Fatal(err)
	}
	w.killed[broker] = killed
	return store
}

// isWrite reports whether a request writes something other than a Lease.
func isWrite(request *http.Request) bool {
	return request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/leases")
}

// blocked blocks requests until end is closed, or until they are canceled.
type blocked struct {
	end     chan struct{}
	waiting atomic.Bool
}

func (b *blocked) wait(request *http.Request) error {
	b.waiting.Store(true)
	select {
	case <-b.end:
		return nil
	case <-request.Context().Done():
		return request.Context().Err()
	}
}

// Block blocks the writes of all brokers, except writes of Leases.
func (w *world) Block() (waiting func() bool, end func()) {
	block := &blocked{end: make(chan struct{})}
	w.block.Store(block)
	return block.waiting.Load, func() {
		w.block.Store(nil)
		close(block.end)
	}
}

// Kill prevents the broker's requests from reaching the API server, so that the broker neither
// renews nor releases its Lease. It shortens the Lease to one second. Other brokers' Leases are
// long enough for a slow machine.
func (w *world) Kill(broker int32) {
	w.killed[broker].Store(true)
	await.Until(w.t, "the Lease expires", func() bool {
		current := &coordinationv1.Lease{}
		w.get(v1alpha1.BrokerLeaseName("demo", broker), current)
		now := metav1.NowMicro()
		current.Spec.RenewTime, current.Spec.LeaseDurationSeconds = &now, new(int32(1))
		// Try again after a conflict with a final renewal.
		return w.client.Update(w.t.Context(), current) == nil
	})
}

// FailWrites makes the writes of all brokers fail, except writes of Leases.
func (w *world) FailWrites(fail bool) { w.writesFail.Store(fail) }

// Reopen does nothing, because the API server stores everything.
func (w *world) Reopen(testing.TB) {}

// Decide permits new volumes, assigns the partitions of new Topics, and elects leaders.
func (w *world) Decide(t testing.TB) {
	t.Helper()
	w.permitVolumes(t)
	topics := &v1alpha1.TopicList{}
	if err := w.client.List(t.Context(), topics, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	in := partitionset.Input{Topics: map[string]partitionset.Topic{}, Brokers: w.up(t),
		Incarnation: metadata.NewID().String()}
	for i := range topics.Items {
		topic := &topics.Items[i]
		topicID, err := id(topic.UID)
		if err != nil {
			t.Fatal(err)
		}
		in.Topics[topic.Name] = partitionset.Topic{Tag: partitionset.Tag(topicID),
			Partitions: topic.Spec.Partitions}
		w.assignTopic(t, topic, in.Topics[topic.Name].Tag)
	}
	w.reclaimOrphans(in.Topics)
	for index := range int32(testSets) {
		err := w.tryChangeSet(v1alpha1.PartitionSetName("demo", index),
			func(set *partitionset.Set) { set.Decide(in) })
		// After a conflict, the next call makes the decision.
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// permitVolumes gives those consents that need no administrator, as controllers/volumes does: no
// broker in the suite finds a new volume while it has a replica.
func (w *world) permitVolumes(t testing.TB) {
	for broker := range int32(metadatatest.Brokers) {
		current := w.lease(t, broker)
		if current == nil {
			continue
		}
		registered := v1alpha1.ReadRegistration(current)
		decision := volumes.Decide(volumes.Input{Brokers: []volumes.Broker{{
			ID: broker, Up: ptr.Deref(current.Spec.HolderIdentity, "") != "",
			Directory: registered.Directory,
			Found:     registered.FoundDirectory,
			Consent: v1alpha1.ParseVolumeConsent(
				current.Annotations[v1alpha1.AnnotationVolumeConsent]),
			Claim: volumes.Claim{UID: "claim", Volume: volumes.Present, Node: volumes.Present},
		}}})
		for _, lost := range decision.Lost {
			if lost.Write == nil {
				continue
			}
			current.Annotations[v1alpha1.AnnotationVolumeConsent] = lost.Write.String()
			if err := w.client.Update(t.Context(), current); err != nil &&
				!apierrors.IsConflict(err) {
				t.Fatal(err)
			}
		}
	}
}

// lease returns a broker's Lease, or nil.
func (w *world) lease(t testing.TB, broker int32) *coordinationv1.Lease {
	current := &coordinationv1.Lease{}
	err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace,
		Name: v1alpha1.BrokerLeaseName("demo", broker)}, current)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return current
}

// up returns the brokers whose Leases are valid.
func (w *world) up(t testing.TB) map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	now := time.Now()
	for id := range int32(metadatatest.Brokers) {
		current := w.lease(t, id)
		if current == nil {
			continue
		}
		w.leases[id] = w.leases[id].Observe(current, now)
		if broker, ok := leaseBroker(current); ok && w.leases[id].Alive(now) {
			all[id] = broker.State()
		}
	}
	return all
}

// assignTopic assigns those partitions of a Topic that have no replicas yet.
func (w *world) assignTopic(t testing.TB, topic *v1alpha1.Topic, tag string) {
	initial, err := metadata.InitialReplicas(&topic.Spec, nil, metadatatest.Brokers,
		func(int32) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	brokers := make([]placement.Broker, metadatatest.Brokers)
	for i := range brokers {
		brokers[i].ID = int32(i)
		if current := w.lease(t, brokers[i].ID); current != nil {
			brokers[i].Full = v1alpha1.ReadRegistration(current).MeasuredVolume().Full()
		}
	}
	cluster := &v1alpha1.LogCluster{}
	w.get("demo", cluster)
	placed, err := placement.Assign(brokers, map[int32]int{}, 0, int(topic.Spec.Partitions),
		metadata.Replicas(topic.Spec.TopicSettings, cluster))
	if err != nil {
		t.Fatal(err)
	}
	for index := range topic.Spec.Partitions {
		key := partitionset.Key{Topic: topic.Name, Index: index}
		replicas := placed[index]
		if initial[index] != nil {
			replicas = initial[index]
		}
		assigned := partitionset.Assignment{Replicas: replicas, Tag: tag}
		if topic.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete {
			assigned.Reclaim = partitionset.Delete
		}
		entry := w.entry(key)
		if entry.Assignment != nil && entry.Assignment.Tag == tag {
			continue
		}
		adopts := entry.Assignment != nil && entry.Assignment.Reclaim == partitionset.Retained
		if adopts {
			assigned.Replicas = entry.Assignment.Replicas
		}
		w.change(key, func(set *partitionset.Set) {
			if !adopts {
				set.RemoveState(key)
			}
			set.Assign(key, assigned)
		})
	}
}

// reclaimOrphans marks the entries of deleted topics as retained, or removes them, as
// controllers/assignment does.
func (w *world) reclaimOrphans(topics map[string]partitionset.Topic) {
	for index := range int32(testSets) {
		resource := &v1alpha1.PartitionSet{}
		w.get(v1alpha1.PartitionSetName("demo", index), resource)
		all, _ := partitionset.Decode(resource, nil)
		for key, entry := range all.All() {
			a := entry.Assignment
			if a == nil || topics[key.Topic].Tag == a.Tag {
				continue
			}
			w.change(key, func(set *partitionset.Set) {
				switch {
				case a.Reclaim == partitionset.Retain:
					next := *a
					next.Reclaim = partitionset.Retained
					set.Assign(key, next)
				case a.Reclaim == partitionset.Delete, entry.State == nil:
					set.Unassign(key)
					set.RemoveState(key)
				}
			})
		}
	}
}

// Apply creates the given Topics that do not exist, and deletes all other Topics.
func (w *world) Apply(t testing.TB, topics ...*v1alpha1.Topic) {
	t.Helper()
	names := map[string]bool{}
	for _, topic := range topics {
		names[topic.Name] = true
		topic.Spec.Cluster = "demo"
		w.create(topic)
	}
	list := &v1alpha1.TopicList{}
	if err := w.client.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if names[list.Items[i].Name] {
			continue
		}
		if err := w.client.Delete(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// GiveUp marks a deleted topic's partition for removal, as the operator would.
func (w *world) GiveUp(_ testing.TB, partition metadata.RetainedPartition) {
	for index := range int32(2) {
		key := partitionset.Key{Topic: partition.Topic, Index: index}
		w.change(key, func(set *partitionset.Set) {
			if entry, _ := set.Get(key); entry.Assignment != nil &&
				entry.Assignment.Tag == partition.Tag {
				given := *entry.Assignment
				given.Reclaim = partitionset.Remove
				set.Assign(key, given)
			}
		})
	}
}

// Authenticate makes the listener require passwords from clients, and creates LogUsers.
func (w *world) Authenticate(_ testing.TB, users ...*v1alpha1.LogUser) {
	w.authenticate()
	for _, user := range users {
		user.Spec.Cluster = "demo"
		w.create(user)
	}
}

// changeLease changes a broker's Lease.
func (w *world) changeLease(t testing.TB, broker int32, change func(*coordinationv1.Lease)) {
	t.Helper()
	await.Until(t, "the Lease is written", func() bool {
		current := w.lease(t, broker)
		change(current)
		return w.client.Update(t.Context(), current) == nil // false after a conflict with a renewal
	})
}

// Isolate marks a broker's Lease as isolated, for the broker's current epoch.
func (w *world) Isolate(t testing.TB, broker int32) {
	w.changeLease(t, broker, func(current *coordinationv1.Lease) {
		current.Annotations[v1alpha1.AnnotationIsolated] =
			strconv.FormatInt(lease.Epoch(current), 10)
	})
}

// DeleteLease deletes a broker's Lease.
func (w *world) DeleteLease(t testing.TB, broker int32) {
	if err := w.client.Delete(t.Context(), w.lease(t, broker)); err != nil {
		t.Fatal(err)
	}
	delete(w.leases, broker)
}

// Unreachable returns the report of unreachable peers from a broker's Lease.
func (w *world) Unreachable(t testing.TB, broker int32) string {
	return v1alpha1.ReadRegistration(w.lease(t, broker)).Unreachable
}
