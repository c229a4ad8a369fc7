package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// +kubebuilder:rbac:groups=heartwood.dev,resources=logclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=partitionsets/status,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// workers is the number of sets that are processed at the same time. A worker spends most of its
// time waiting for a write to the API server. When a broker fails, all sets of its cluster are
// processed.
const workers = 16

// Reconciler elects the leaders of partitions.
type Reconciler struct {
	client.Client
	Events  conditions.Recorder
	Brokers *brokerstate.Tracker
	Sets    *sets.Reader
	Writer  *commit.Writer
	// BrokerChanges delivers a LogCluster when the state of one of its brokers has changed.
	BrokerChanges <-chan event.GenericEvent
	// PreferredLeaderDelay is the time for which a preferred leader must have been able to lead before
	// leadership moves back to it; default DefaultPreferredLeaderDelay.
	PreferredLeaderDelay time.Duration

	seconds  prometheus.Histogram
	settling settling
	memories keyed.Map[*memory]
}

// Setup adds the controller to a manager and registers its metrics. This controller does not watch
// Leases; see package controllers/broker.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	var err error
	if r.seconds, err = newElectionSeconds(); err != nil {
		return err
	}
	r.PreferredLeaderDelay = cmp.Or(r.PreferredLeaderDelay, DefaultPreferredLeaderDelay)
	return watch.NewController(mgr, "election", workers).
		For(&v1alpha1.PartitionSet{}).
		Watches(&v1alpha1.Topic{}, handler.EnqueueRequestsFromMapFunc(r.ofTopic),
			builder.WithPredicates(changesElections)).
		// LogClusters contain the default that decides whether an out-of-sync replica can be elected.
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(watch.SpecChanged)).
		WatchesRawSource(source.Channel(r.BrokerChanges,
			handler.EnqueueRequestsFromMapFunc(r.ofCluster))).
		Complete(r)
}

// changesElections selects the events of Topics that affect elections. It drops changes of the
// status, because the statuses of all Topics of a broker change when the broker fails.
var changesElections = predicate.Or[client.Object](watch.SpecChanged,
	predicate.AnnotationChangedPredicate{})

// Reconcile makes a set's elections, and writes the set's status if it has changed. A partition is
// ready when its leader has reported that it serves.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.PartitionSet{}
	if err := r.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var result ctrl.Result
	var decided []partitionset.Decided
	var topics map[string]*v1alpha1.Topic
	err := r.Writer.ChangeStatuses(ctx, sets.Name(req.NamespacedName), true,
		[]commit.Change{func(set *partitionset.Set) error {
			// The set can be of a later version than object, with other Topics and brokers.
			var ballot ballot
			var err error
			ballot, topics, result.RequeueAfter, err = r.gather(ctx, object, set)
			if err != nil {
				return err
			}
			decided = ballot.decide(set)
			// If the set was created again after object was read, the event of the new set handles it. The
			// status must be written, because brokers do not read the annotation.
			if set.IsOf(object) && object.Annotations[v1alpha1.AnnotationRemembered] != "" &&
				len(object.Status.Partitions) == 0 && !set.Empty() {
				set.TouchStatus()
			}
			return nil
		}})[0]
	if err != nil {
		if errors.Is(err, commit.ErrNotFound) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("elect leaders: %w", err)
	}
	r.observe(ctx, req.NamespacedName, topics, decided)
	return result, r.forgetLastStatus(ctx, object)
}

// forget removes the stored information about a set that does not exist. If no other set of the
// LogCluster exists, it also removes the information about the LogCluster's brokers.
func (r *Reconciler) forget(ctx context.Context, set types.NamespacedName) error {
	r.Sets.Forget(set)
	r.Writer.Forget(sets.Name(set))
	memory, known := r.memories.Get(set)
	if !known {
		return nil
	}
	remaining, err := r.Sets.OfCluster(ctx, set.Namespace, memory.cluster)
	if err != nil {
		return err
	}
	if len(remaining.Objects) == 0 {
		r.settling.forget(set.Namespace, memory.cluster)
	}
	r.memories.Delete(set)
	return nil
}

// gather reads the complete input for a set's elections. object is a version of the set. again is
// the time after which the elections must be repeated, or 0 if only events can change them.
func (r *Reconciler) gather(ctx context.Context, object *v1alpha1.PartitionSet,
	set *partitionset.Set) (b ballot, topics map[string]*v1alpha1.Topic, again time.Duration,
	err error) {
	b.Brokers, b.Topics = map[int32]placement.BrokerState{}, map[string]partitionset.Topic{}
	b.Incarnation = partitionset.Tag(metadata.NewID())
	if topics, err = r.gatherTopics(ctx, object, set, &b); err != nil {
		return ballot{}, nil, 0, err
	}
	now := time.Now()
	if err := r.gatherBrokers(ctx, object, set, now, &b); err != nil {
		return ballot{}, nil, 0, err
	}
	if err := r.gatherReplaced(ctx, object, set, &b); err != nil {
		return ballot{}, nil, 0, err
	}
	memory, known := r.memories.Get(client.ObjectKeyFromObject(object))
	if !known {
		memory = newMemory(object.Spec.Cluster)
		r.memories.Set(client.ObjectKeyFromObject(object), memory)
	}
	memory.retain(set)
	due, again := memory.preferred.observe(set, b.Brokers, b.Topics, r.PreferredLeaderDelay, now)
	b.Preferred = func(key partitionset.Key) bool { return due[key] }
	for _, left := range []time.Duration{b.leaveISR, b.returned} {
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	return b, topics, again, nil
}

// gatherBrokers reads the state of every broker that appears in the set.
func (r *Reconciler) gatherBrokers(ctx context.Context, object *v1alpha1.PartitionSet,
	set *partitionset.Set, now time.Time, b *ballot) error {
	for _, entry := range set.All() {
		for _, id := range entry.Brokers() {
			if _, known := b.Brokers[id]; known {
				continue
			}
			lease := types.NamespacedName{Namespace: object.Namespace,
				Name: v1alpha1.BrokerLeaseName(object.Spec.Cluster, id)}
			state, _, err := r.Brokers.State(ctx, lease)
			if err != nil {
				return err
			}
			b.Brokers[id] = state
			left := r.settling.observe(lease, state, now)
			if state.Liveness == placement.Up {
				b.returned = max(b.returned, left)
			} else {
				b.leaveISR = max(b.leaveISR, left)
			}
		}
	}
	return nil
}

// gatherTopics reads the Topics of the set's partitions. If the settings of a Topic and of its
// LogCluster contradict each other, it disallows unclean elections.
func (r *Reconciler) gatherTopics(ctx context.Context, object *v1alpha1.PartitionSet,
	set *partitionset.Set, b *ballot) (map[string]*v1alpha1.Topic, error) {
	cluster := &v1alpha1.LogCluster{}
	err := r.Get(ctx, types.NamespacedName{Namespace: object.Namespace,
		Name: object.Spec.Cluster}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the LogCluster: %w", err)
	}
	exists := err == nil
	topics := map[string]*v1alpha1.Topic{}
	for key := range set.All() {
		if _, known := topics[key.Topic]; known {
			continue
		}
		topic := &v1alpha1.Topic{}
		err := r.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: key.Topic}, topic)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get topic %s: %w", key.Topic, err)
		}
		topics[key.Topic] = topic
		if err != nil || topic.Spec.Cluster != object.Spec.Cluster {
			continue
		}
		in := partitionset.Topic{Tag: sets.Tag(topic.UID), Partitions: topic.Spec.Partitions,
			AcceptedDataLoss: topic.AcceptedDataLoss()}
		if exists {
			settings, err := metadata.SettingsOf(topic, cluster)
			in.AllowUnclean = err == nil && settings.UncleanElection
		}
		b.Topics[key.Topic] = in
	}
	return topics, nil
}

// observe measures outages and reports elections. An unclean restart of the only replica creates no
// event, because no other leader was possible.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName,
	topics map[string]*v1alpha1.Topic, decided []partitionset.Decided) {
	memory, _ := r.memories.Get(key)
	now := time.Now()
	for _, d := range decided {
		memory.outages.observe(d, now, r.seconds)
	}
	elections, logger := moved(decided), ctrl.LoggerFrom(ctx)
	if len(elections) > 0 {
		logger.Info("elected leaders", "partitions", len(elections))
	}
	for _, d := range elections {
		state := d.After.State
		logger.V(1).Info("leader changed", "partition", d.Key.String(), "leader", state.Leader,
			"leaderEpoch", state.LeaderEpoch)
		if topic := topics[d.Key.Topic]; d.Unclean && topic != nil &&
			len(d.After.Assignment.Replicas) > 1 {
			r.Events.Warning(topic, v1alpha1.EventUncleanElection, "Elect",
				"Broker %d was elected leader of partition %d with leader epoch %d and may lack "+
					"acknowledged records, because no replica that has all of them was up.",
				state.Leader, d.Key.Index, state.LeaderEpoch)
		}
	}
}

// forgetLastStatus removes the annotation with the last status of a deleted set, once the status
// was written to the recreated set. It changes only this version of the set: if the set has been
// deleted and created again since then, only the annotation of the new set contains the status.
// After a conflict, the event of the other version triggers another reconciliation.
func (r *Reconciler) forgetLastStatus(ctx context.Context, set *v1alpha1.PartitionSet) error {
	if set.Annotations[v1alpha1.AnnotationRemembered] == "" || len(set.Status.Partitions) == 0 {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:null}}}`,
		set.UID, set.ResourceVersion, v1alpha1.AnnotationRemembered)
	changed := &v1alpha1.PartitionSet{}
	changed.Namespace, changed.Name = set.Namespace, set.Name
	err := r.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the last status from PartitionSet %s: %w", set.Name, err)
	}
	return nil
}

// ofTopic maps a Topic to the sets that contain entries of its partitions. A new Topic usually has
// no entries yet, and the event of the set triggers the election. However, the watch of Topics can
// deliver the Topic after the set. If a Topic has fewer partitions than were retained, the other
// partitions are in the same sets or need no election.
func (r *Reconciler) ofTopic(ctx context.Context, object client.Object) []reconcile.Request {
	topic := object.(*v1alpha1.Topic)
	found, err := r.Sets.OfCluster(ctx, topic.Namespace, topic.Spec.Cluster)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the sets of a topic", "topic", topic.Name)
		return nil
	}
	var requests []reconcile.Request
	for number, set := range found.Objects {
		for index := range partitionset.Indexes(topic.Name, number, found.Count,
			topic.Spec.Partitions) {
			key := partitionset.Key{Topic: topic.Name, Index: index}
			if _, ok := found.Sets[number].Get(key); ok {
				requests = append(requests,
					reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
				break
			}
		}
	}
	return requests
}

// ofCluster maps a LogCluster to its sets.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	found, err := r.Sets.OfCluster(ctx, cluster.GetNamespace(), cluster.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the sets of a cluster", "cluster",
			cluster.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(found.Objects))
	for _, set := range found.Objects {
		requests = append(requests,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
	}
	return requests
}
