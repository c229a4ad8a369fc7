package volumes

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/volumes"
	"heartwood.dev/heartwood/internal/placement"
)

// unscheduledAfter is the time after which a pod without a node is reported. Kubernetes schedules a
// pod within seconds, unless it must create a volume first.
const unscheduledAfter = time.Minute

// input is the input of a decision, with the objects that its execution needs. The objects must not
// be changed.
type input struct {
	volumes.Input
	cluster *v1alpha1.LogCluster
	running int32 // number of the StatefulSet's brokers; 0 if the StatefulSet does not exist
	claims  map[int32]*corev1.PersistentVolumeClaim
	pods    map[int32]*corev1.Pod
	leases  map[int32]*coordinationv1.Lease
}

// gather reads the input of a decision, without the partitions.
func (r *Reconciler) gather(ctx context.Context, cluster *v1alpha1.LogCluster) (*input, error) {
	in := &input{cluster: cluster, claims: map[int32]*corev1.PersistentVolumeClaim{},
		pods: map[int32]*corev1.Pod{}, leases: map[int32]*coordinationv1.Lease{}}
	in.Requested = cluster.ReplaceVolumes()
	if err := r.gatherObjects(ctx, in); err != nil {
		return nil, err
	}
	var err error
	if in.running, err = r.running(ctx, cluster); err != nil {
		return nil, err
	}
	for id := range in.running {
		broker, err := r.broker(ctx, in, id)
		if err != nil {
			return nil, err
		}
		in.Brokers = append(in.Brokers, broker)
	}
	return in, nil
}

// decide gathers the input and makes a decision. While volumes are lost, the decision depends on
// all partitions. Usually, decide uses cached PartitionSets, which may be outdated. If the decision
// would give up a volume, which cannot be undone, decide makes it again with PartitionSets read
// from the API server itself.
func (r *Reconciler) decide(ctx context.Context, cluster *v1alpha1.LogCluster) (*input,
	volumes.Decision, error) {
	in, err := r.gather(ctx, cluster)
	if err != nil {
		return nil, volumes.Decision{}, err
	}
	if !in.AnyLost() {
		return in, volumes.Decide(in.Input), nil
	}
	cached, err := r.Sets.OfCluster(ctx, cluster.Namespace, cluster.Name)
	if err != nil {
		return nil, volumes.Decision{}, err
	}
	if err := r.gatherPartitions(ctx, in, cached); err != nil {
		return nil, volumes.Decision{}, err
	}
	decision := volumes.Decide(in.Input)
	if !decision.GivesUp() {
		return in, decision, nil
	}
	live, complete, err := sets.Live(ctx, r.Live, cluster.Namespace, cluster.Name)
	if err != nil {
		return nil, volumes.Decision{}, err
	}
	in.Incomplete = !complete
	if err := r.gatherPartitions(ctx, in, live); err != nil {
		return nil, volumes.Decision{}, err
	}
	return in, volumes.Decide(in.Input), nil
}

// gatherObjects reads the claims, pods and Leases of brokers.
func (r *Reconciler) gatherObjects(ctx context.Context, in *input) error {
	namespace := client.InNamespace(in.cluster.Namespace)
	ofCluster := client.MatchingLabels{v1alpha1.LabelCluster: in.cluster.Name}
	claims, pods, leases := &corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
		&coordinationv1.LeaseList{}
	if err := r.List(ctx, claims, namespace, client.MatchingLabels(render.Selector(in.cluster)),
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	for i := range claims.Items {
		if name, id, ok := v1alpha1.ParseVolumeClaimName(claims.Items[i].Name); ok &&
			name == in.cluster.Name {
			in.claims[id] = &claims.Items[i]
		}
	}
	if err := r.List(ctx, pods, namespace, ofCluster, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		if _, id, ok := v1alpha1.ParseBrokerLeaseName(pods.Items[i].Name); ok {
			in.pods[id] = &pods.Items[i]
		}
	}
	if err := r.List(ctx, leases, namespace, ofCluster, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for i := range leases.Items {
		if name, id, ok := v1alpha1.ParseBrokerLeaseName(leases.Items[i].Name); ok &&
			name == in.cluster.Name {
			in.leases[id] = &leases.Items[i]
		}
	}
	return nil
}

// running returns the number of the StatefulSet's brokers, or 0 if the StatefulSet does not exist
// yet.
func (r *Reconciler) running(ctx context.Context, cluster *v1alpha1.LogCluster) (int32, error) {
	brokers := &appsv1.StatefulSet{}
	err := r.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}, brokers)
	if err != nil || brokers.Spec.Replicas == nil {
		return 0, client.IgnoreNotFound(err)
	}
	return *brokers.Spec.Replicas, nil
}

// broker returns the state of a broker and of its volume.
func (r *Reconciler) broker(ctx context.Context, in *input, id int32) (volumes.Broker, error) {
	b := volumes.Broker{ID: id, Claim: volumes.Claim{Volume: volumes.Present,
		Node: volumes.Present}}
	state, _, err := r.Brokers.State(ctx, types.NamespacedName{Namespace: in.cluster.Namespace,
		Name: v1alpha1.BrokerLeaseName(in.cluster.Name, id)})
	if err != nil {
		return b, err
	}
	b.Up, b.Unverified = state.Liveness != placement.Down, state.Liveness == placement.Unknown
	if lease := in.leases[id]; lease != nil {
		registered := v1alpha1.ReadRegistration(lease)
		b.Directory, b.Found = registered.Directory, registered.FoundDirectory
		b.Consent = v1alpha1.LeaseVolumeConsent(lease)
	}
	if pod := in.pods[id]; pod != nil {
		b.Unscheduled = pod.Spec.NodeName == "" &&
			time.Since(pod.CreationTimestamp.Time) > unscheduledAfter
	}
	claim := in.claims[id]
	if claim == nil {
		return b, nil
	}
	b.Claim.Name, b.Claim.UID = claim.Name, string(claim.UID)
	b.Claim.Lost = claim.Status.Phase == corev1.ClaimLost
	if !b.Up && claim.Spec.VolumeName != "" {
		b.Claim.Volume, b.Claim.Node = r.places.find(ctx, r.Live,
			client.ObjectKeyFromObject(in.cluster), claim.Spec.VolumeName)
	}
	return b, nil
}

// gatherPartitions reads all partitions, with their in-sync replicas: partitions of Topics and
// retained partitions.
func (r *Reconciler) gatherPartitions(ctx context.Context, in *input, all *sets.Cluster) error {
	in.Partitions = nil
	for i := range in.Brokers {
		in.Brokers[i].Holds = false
	}
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(in.cluster.Namespace),
		client.MatchingFields{index.ByCluster: in.cluster.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	accepted, tags := map[string]map[int32]string{}, map[string]string{}
	for i := range topics.Items {
		topic := &topics.Items[i]
		tags[topic.Name] = sets.Tag(topic.UID)
		if consents := topic.AcceptedDataLoss(); consents != nil {
			accepted[topic.Name] = consents
		}
	}
	for key, entry := range all.All() {
		for _, id := range entry.Brokers() {
			if int(id) < len(in.Brokers) {
				in.Brokers[id].Holds = true
			}
		}
		if entry.State == nil || len(entry.State.ISR) == 0 || entry.Assignment == nil {
			continue
		}
		p := volumes.Partition{Name: key.String(), ISR: entry.State.ISR,
			Retained: !entry.BelongsTo(tags[key.Topic])}
		if p.Retained && entry.Assignment.Reclaim == partitionset.Delete {
			continue // the partition's records are being deleted
		}
		if !p.Retained {
			p.Accepted = placement.ConsentedID(accepted[key.Topic][key.Index],
				entry.State.LeaderEpoch)
		}
		in.Partitions = append(in.Partitions, p)
	}
	return nil
}
