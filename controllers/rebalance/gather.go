package rebalance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
)

// input is the input of a decision, with the objects that its execution needs.
type input struct {
	rebalance.Input
	sets   *sets.Cluster
	topics []*v1alpha1.Topic // Topic of each partition
}

// key returns the key of a partition.
func (in *input) key(partition int) partitionset.Key {
	p := &in.Partitions[partition]
	return partitionset.Key{Topic: p.Topic, Index: p.Index}
}

// gather reads the input of a decision. It returns nil if PartitionSets are missing; the assignment
// controller creates them.
func (r *Reconciler) gather(ctx context.Context, cluster *v1alpha1.LogCluster) (*input, error) {
	key := client.ObjectKeyFromObject(cluster)
	in := &input{Input: rebalance.Input{Now: time.Now(), Cluster: cluster,
		Racks: map[int32]string{}, Used: map[int32]int64{}, Held: map[int32]int{},
		Down: map[int32]bool{}}}
	var err error
	if in.sets, err = r.Sets.OfCluster(ctx, key.Namespace, key.Name); err != nil {
		return nil, err
	}
	if int32(len(in.sets.Sets)) < in.sets.Count {
		return nil, nil
	}
	if err := r.gatherBrokers(ctx, in); err != nil {
		return nil, err
	}
	latest := r.Reports.Latest(key)
	in.Silent = silent(latest, &cluster.Spec)
	if in.Obstacle == "" && !reported(in.Silent, &cluster.Spec) {
		in.Obstacle = "Not all brokers have reported the sizes of their replicas."
	}
	if latest == nil {
		latest = &reports.Cluster{}
	}
	topics := &v1alpha1.TopicList{}
	if err := r.List(ctx, topics, client.InNamespace(key.Namespace),
		client.MatchingFields{index.ByCluster: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	tags := map[string]string{}
	for i := range topics.Items {
		topic := &topics.Items[i]
		in.addTopic(topic, latest)
		tags[topic.Name] = sets.Tag(topic.UID)
	}
	in.count(tags)
	for _, rows := range latest.Rows {
		for i := range rows {
			in.Used[rows[i].Broker] += rows[i].SizeBytes
		}
	}
	return in, nil
}

// silent returns the brokers that did not respond in the last round or were not polled in it.
func silent(latest *reports.Cluster, spec *v1alpha1.LogClusterSpec) map[int32]bool {
	silent, polled := map[int32]bool{}, int32(0)
	if latest != nil {
		for _, id := range latest.Silent {
			silent[id] = true
		}
		polled = int32(latest.Polled)
	}
	for id := polled; id < spec.Brokers; id++ {
		silent[id] = true
	}
	return silent
}

// reported reports whether all brokers outside spec.drain have reported.
func reported(silent map[int32]bool, spec *v1alpha1.LogClusterSpec) bool {
	for id := range silent {
		if id < spec.Brokers && !slices.Contains(spec.Drain, id) {
			return false
		}
	}
	return true
}

// count counts the replicas on each broker in the same way as condition Scaled: for all partitions
// of existing Topics, whose tags are given. It counts retained partitions on drained brokers
// separately.
func (in *input) count(tags map[string]string) {
	for key, entry := range in.sets.All() {
		if entry.Retained() && slices.ContainsFunc(entry.Brokers(), func(id int32) bool {
			return slices.Contains(in.Cluster.Spec.Drain, id)
		}) {
			in.Retained++
		}
		if !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		for _, id := range entry.Brokers() {
			in.Held[id]++
		}
	}
	for _, set := range in.sets.Sets {
		for _, key := range set.InvalidKeys() {
			if _, exists := tags[key.Topic]; exists {
				in.Invalid = append(in.Invalid, key.String())
			}
		}
	}
	slices.Sort(in.Invalid)
}

// gatherBrokers reads the brokers' racks, and whether all brokers are up.
func (r *Reconciler) gatherBrokers(ctx context.Context, in *input) error {
	cluster := in.Cluster
	for id := range cluster.Spec.Brokers {
		name := types.NamespacedName{Namespace: cluster.Namespace,
			Name: v1alpha1.BrokerLeaseName(cluster.Name, id)}
		state, _, err := r.Brokers.State(ctx, name)
		if err != nil {
			return err
		}
		in.addState(id, state)
		lease := &coordinationv1.Lease{}
		if err := r.Get(ctx, name, lease); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get the lease of broker %d: %w", id, err)
		}
		in.Racks[id] = lease.Annotations[v1alpha1.AnnotationRack]
	}
	return nil
}

// addState adds a broker's state.
func (in *input) addState(id int32, state placement.BrokerState) {
	if state.Liveness == placement.Up && !state.Leaving {
		return
	}
	in.Down[id] = true
	if !slices.Contains(in.Cluster.Spec.Drain, id) {
		in.Obstacle = fmt.Sprintf("Broker %d is not up.", id)
	}
}

// addTopic adds those partitions of a Topic that are assigned and have a state.
func (in *input) addTopic(topic *v1alpha1.Topic, latest *reports.Cluster) {
	rows := map[int32][]*report.Partition{}
	all := latest.Rows[topic.KafkaName()]
	for i := range all {
		rows[all[i].Partition] = append(rows[all[i].Partition], &all[i])
	}
	tag, replicas := sets.Tag(topic.UID), metadata.Replicas(topic.Spec.TopicSettings, in.Cluster)
	for index := range topic.Spec.Partitions {
		key := partitionset.Key{Topic: topic.Name, Index: index}
		entry := in.sets.Get(key)
		if in.sets.Invalid(key) || !entry.BelongsTo(tag) || entry.State == nil {
			continue
		}
		p := rebalance.Partition{Topic: topic.Name, Index: index,
			Assigned: entry.Assignment.Replicas, Replicas: entry.State.Replicas,
			Leader: entry.State.Leader, Sizes: map[int32]int64{},
			// Fixed: the assignment controller changes the number of replicas.
			Fixed: len(entry.Assignment.Replicas) != replicas, Rate: -1}
		partition := report.TopicPartition{Topic: topic.KafkaName(), Partition: index}
		if rate, known := latest.Rates[partition]; known {
			p.Rate = int64(rate.PerSecond)
		}
		for _, row := range rows[index] {
			addRow(&p, row)
		}
		var known bool
		if p.Bytes, known = p.Sizes[p.Leader]; !known { // a drained leader has not reported
			for _, size := range p.Sizes {
				p.Bytes = max(p.Bytes, size)
			}
		}
		in.Partitions = append(in.Partitions, p)
		in.topics = append(in.topics, topic)
	}
}

// addRow adds a replica's report to a partition.
func addRow(p *rebalance.Partition, row *report.Partition) {
	p.Sizes[row.Broker] = row.SizeBytes
	compaction := row.Compaction
	if compaction == nil {
		return
	}
	switch compaction.Phase {
	case "idle", "queued":
	default:
		p.Cleaning = append(p.Cleaning, row.Broker)
	}
	cleans := compaction.Reason != v1alpha1.ReasonQuarantined &&
		compaction.Reason != v1alpha1.ReasonCleanerDisabled
	if row.Broker == p.Leader && cleans && compaction.ReclaimableBytes != nil {
		p.Reclaimable = *compaction.ReclaimableBytes
	}
}

// clean asks partition leaders to clean their partitions. If a leader refuses, for example because
// its cleaner is disabled, the move of the partition waits until its time limit has passed.
func (r *Reconciler) clean(ctx context.Context, cluster *v1alpha1.LogCluster, in *input,
	partitions []int) {
	for _, i := range partitions {
		p := &in.Partitions[i]
		if err := r.cleanNow(ctx, cluster, p.Leader, in.topics[i].KafkaName(), p.Index); err != nil {
			ctrl.LoggerFrom(ctx).Info("failed to request a clean before a move", "partition",
				p.Key(), "broker", p.Leader, "error", err.Error())
		}
	}
}

// cleanTimeout is the timeout of a request to clean a partition.
const cleanTimeout = 3 * time.Second

// cleanNow asks a broker to clean a partition.
func (r *Reconciler) cleanNow(ctx context.Context, cluster *v1alpha1.LogCluster, broker int32,
	topic string, index int32) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	scheme, transport, err := r.TLS.HTTP(ctx, client.ObjectKeyFromObject(cluster), broker,
		r.Transport)
	if err != nil {
		return err
	}
	address := scheme + "://" + render.HTTPAddress(cluster.Name, cluster.Namespace, broker) +
		"/api/v1/topics/" + url.PathEscape(topic) + "/clean?partition=" + strconv.Itoa(int(index))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}
