package roll

import (
	"heartwood.dev/heartwood/controllers/reports"

	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// lend begins and ends loans of replicas (spec.rollout.singleReplica). If a broker's restart waits
// for loans, waits describes them; otherwise it is "". lent reports whether any loans exist.
func (r *Roller) lend(ctx context.Context, s *facts.Facts, state rollout.State,
	next rollout.Decision) (waits string, lent bool, err error) {
	if !state.Lends && s.CountLent() == 0 {
		return "", false, nil
	}
	l := lendingOf(s, r.Reports.Latest(client.ObjectKeyFromObject(s.Cluster)))
	d := rollout.Lend(state, l.Lending, next)
	if err := r.writeLoans(ctx, s, d, l.permanent); err != nil {
		return "", false, err
	}
	if len(d.Begin) > 0 {
		r.Events.Normal(s.Cluster, v1alpha1.EventReplicasLent, "Lend", "Broker %d is to be "+
			"restarted: %d partitions with one replica on it are copied to other brokers.", d.Lender,
			len(d.Begin))
	}
	if len(d.End) > 0 {
		r.Events.Normal(s.Cluster, v1alpha1.EventReplicasReturned, "Lend", "%d partitions lose the "+
			"replicas that were lent to them.", len(d.End))
	}
	return describeLending(d, l.Loans), len(l.Loans)+len(d.Begin) > 0, nil
}

// describeLending describes the loans for which a broker's restart waits.
func describeLending(d rollout.LendingDecision, present []rollout.Loan) string {
	const accept = " Or set spec.rollout.singleReplica to Accept: then the partition is unavailable " +
		"during the restart."
	text := fmt.Sprintf("Broker %d waits for its restart: ", d.Lender)
	only := text + "partition " + d.Partition + " has no other replica, and "
	switch d.Obstacle {
	case rollout.NoHost:
		return only + "no other broker is up and may get one: brokers are down, cordoned, drained or " +
			"full. Add a broker." + accept
	case rollout.NoSpace:
		return only + "no other broker has space for one. Add a broker or disk space." + accept
	case rollout.UnknownSize:
		return only + "its size has not been reported yet."
	case rollout.NoObstacle:
	}
	copying, left := 0, int64(0)
	for _, loan := range slices.Concat(present, d.Begin) {
		if loan.Home == d.Lender && loan.Left > 0 {
			copying++
			left += loan.Left
		}
	}
	if copying == 0 {
		return "" // all records are copied; the message names a partition until its replicas are in sync
	}
	// The number of bytes also shows that the copies progress, so the update is not reported as stuck.
	return text + fmt.Sprintf("other brokers copy %d partitions that have no other replica, with %d "+
		"KiB left.", copying, left>>10)
}

// lending is the input of rollout.Lend.
type lending struct {
	rollout.Lending
	// permanent contains the partitions with a loan whose Topic now requires another number of
	// replicas.
	permanent []partitionset.Key
}

// lendingOf gathers the loans, the partitions that can get a loan, and the brokers. It ignores the
// loans of partitions that are no longer assigned, because the assignment controller changes these
// partitions.
func lendingOf(s *facts.Facts, latest *reports.Cluster) (l lending) {
	sizes := sizesOf(latest)
	for _, p := range s.Lendable() {
		key, entry, topic := p.Key, p.Entry, p.Topic
		replicas := entry.Assignment.Replicas
		home := replicas[0]
		replicaSizes := sizes[report.TopicPartition{Topic: topic.KafkaName(), Partition: key.Index}]
		size, known := replicaSizes[home]
		switch {
		case entry.Lent && !s.HasSingleReplica(topic):
			l.permanent = append(l.permanent, key)
		case entry.Lent:
			l.Loans = append(l.Loans, rollout.Loan{Partition: key.String(), Home: home,
				Host: replicas[1], Left: max(0, size-replicaSizes[replicas[1]])})
		case s.LendsTo(topic) && slices.Equal(replicas, entry.State.Replicas) &&
			len(replicas) == 1 && entry.Serves():
			if !known {
				size = -1
			}
			l.Singles = append(l.Singles, rollout.Single{Partition: key.String(), Home: home,
				Bytes: size})
		}
	}
	l.Hosts = hostsOf(s, latest)
	return l
}

// sizesOf returns the size of each replica, by partition and broker.
func sizesOf(latest *reports.Cluster) map[report.TopicPartition]map[int32]int64 {
	sizes := map[report.TopicPartition]map[int32]int64{}
	if latest == nil {
		return sizes
	}
	for _, rows := range latest.Rows {
		for i := range rows {
			key := report.TopicPartition{Topic: rows[i].Topic, Partition: rows[i].Partition}
			if sizes[key] == nil {
				sizes[key] = map[int32]int64{}
			}
			sizes[key][rows[i].Broker] = rows[i].SizeBytes
		}
	}
	return sizes
}

// hostsOf returns the brokers as possible hosts of lent replicas, by id.
func hostsOf(s *facts.Facts, latest *reports.Cluster) []rollout.Host {
	used := map[int32]int64{}
	for _, replicaSizes := range sizesOf(latest) {
		for id, size := range replicaSizes {
			used[id] += size
		}
	}
	full, spec := s.Cluster.FullBrokers(), &s.Cluster.Spec
	all := make([]rollout.Host, s.Drain().Brokers)
	for i := range all {
		id := int32(i)
		all[i] = rollout.Host{Receives: spec.MayReceive(id) && !full[id] && id < spec.Brokers,
			Leaves: slices.Contains(spec.Drain, id) || id >= spec.Brokers,
			Free:   rebalance.FreeSpace(s.Cluster, id, used[id])}
	}
	return all
}

// writeLoans writes the decided loans into the PartitionSets. If a partition's assignment has
// changed since the decision, it skips the partition, and the next decision covers it.
func (r *Roller) writeLoans(ctx context.Context, s *facts.Facts, d rollout.LendingDecision,
	permanent []partitionset.Key) error {
	bySet := map[int32][]func(*partitionset.Set){}
	add := func(key partitionset.Key, change func(*partitionset.Set)) {
		_, number := s.Sets.Of(key)
		bySet[number] = append(bySet[number], change)
	}
	for _, loan := range d.Begin {
		if key, err := partitionset.ParseKey(loan.Partition); err == nil {
			add(key, func(set *partitionset.Set) { begin(set, key, loan) })
		}
	}
	for _, loan := range d.End {
		if key, err := partitionset.ParseKey(loan.Partition); err == nil {
			add(key, func(set *partitionset.Set) { end(set, key, loan) })
		}
	}
	for _, key := range permanent {
		add(key, func(set *partitionset.Set) { set.KeepLent(key) })
	}
	var group errgroup.Group
	for number, changes := range bySet {
		group.Go(func() error {
			name := sets.Name(types.NamespacedName{Namespace: s.Cluster.Namespace,
				Name: v1alpha1.PartitionSetName(s.Cluster.Name, number)})
			if err := r.Writer.ChangeSpec(ctx, name, func(set *partitionset.Set) error {
				for _, change := range changes {
					change(set)
				}
				return nil
			}); err != nil {
				return fmt.Errorf("write loans of replicas: %w", err)
			}
			return nil
		})
	}
	return group.Wait()
}

// begin begins a loan if the partition still has its single replica and no other replica is
// assigned.
func begin(set *partitionset.Set, key partitionset.Key, loan rollout.Loan) {
	only := []int32{loan.Home}
	now, _ := set.Get(key)
	if !set.Invalid(key) && now.Assignment != nil && now.State != nil &&
		slices.Equal(now.Assignment.Replicas, only) && slices.Equal(now.State.Replicas, only) {
		set.Lend(key, loan.Host)
	}
}

// end ends a loan if the loan has not changed since the decision.
func end(set *partitionset.Set, key partitionset.Key, loan rollout.Loan) {
	now, _ := set.Get(key)
	if !set.Invalid(key) && now.Lent &&
		slices.Equal(now.Assignment.Replicas, []int32{loan.Home, loan.Host}) {
		set.TakeBack(key)
	}
}
