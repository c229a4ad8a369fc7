package kube

import (
	"errors"
	"net/http"
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

// world is the LogCluster demo in a namespace of a real API server. It decides with the packages
// that the operator uses: about assignments, elections, and new volumes of brokers.
type world struct {
	*fixture
	killed     map[int32]*atomic.Bool
	writesFail atomic.Bool
	leases     map[int32]lease.Observation
}

// testConformance runs the suite of the metadata stores.
func testConformance(t *testing.T, config *rest.Config) {
	metadatatest.Run(t, func(t testing.TB) metadatatest.World {
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
			if w.writesFail.Load() && request.Method != http.MethodGet &&
				!strings.Contains(request.URL.Path, "/leases") {
				return nil, errors.New("the API server fails")
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

// Kill lets no request of the broker reach the API server any more, so that it neither renews nor
// releases its Lease. The Lease expires after a second. Those of other brokers last as long as a
// slow machine needs.
func (w *world) Kill(broker int32) {
	w.killed[broker].Store(true)
	await.Until(w.t, "the Lease expires", func() bool {
		current := &coordinationv1.Lease{}
		w.get(v1alpha1.BrokerLeaseName("demo", broker), current)
		now := metav1.NowMicro()
		current.Spec.RenewTime, current.Spec.LeaseDurationSeconds = &now, new(int32(1))
		return w.client.Update(w.t.Context(), current) == nil // a last renewal may conflict
	})
}

// FailWrites makes the writes of all brokers fail, except those of Leases.
func (w *world) FailWrites(fail bool) { w.writesFail.Store(fail) }

// Reopen does nothing: the API server stores all.
func (w *world) Reopen(testing.TB) {}

// Decide permits new volumes, assigns the partitions of new Topics and elects leaders.
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
	for index := range int32(testSets) {
		err := w.tryChangeSet(v1alpha1.PartitionSetName("demo", index),
			func(set *partitionset.Set) { set.Decide(in) })
		if err != nil && !apierrors.IsConflict(err) { // after a conflict the next call decides
			t.Fatal(err)
		}
	}
}

// permitVolumes gives the consents that need no person, as controllers/volumes does: no broker of
// the suite finds a new volume while it holds a replica.
func (w *world) permitVolumes(t testing.TB) {
	for broker := range int32(metadatatest.Brokers) {
		current := w.lease(t, broker)
		if current == nil {
			continue
		}
		decision := volumes.Decide(volumes.Input{Brokers: []volumes.Broker{{
			ID: broker, Up: ptr.Deref(current.Spec.HolderIdentity, "") != "",
			Directory: current.Annotations[v1alpha1.AnnotationDirectory],
			Found:     current.Annotations[v1alpha1.AnnotationFoundDirectory],
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

// lease returns the Lease of a broker, or nil.
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

// assignTopic assigns the partitions of a Topic that have no replicas yet.
func (w *world) assignTopic(t testing.TB, topic *v1alpha1.Topic, tag string) {
	initial, err := metadata.InitialReplicas(&topic.Spec, nil, metadatatest.Brokers,
		func(int32) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	brokers := make([]placement.Broker, metadatatest.Brokers)
	for i := range brokers {
		brokers[i].ID = int32(i)
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
		if entry := w.entry(key); entry.Assignment != nil && entry.Assignment.Tag == tag {
			continue
		}
		w.change(key, func(set *partitionset.Set) {
			set.RemoveState(key)
			set.Assign(key, partitionset.Assignment{Replicas: replicas, Tag: tag})
		})
	}
}
