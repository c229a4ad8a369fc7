package election

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// gatherReplaced translates users' consents to the loss of records. If a consent names the claim of
// a lost volume, gatherReplaced replaces the claim's UID with the directory id of the volume with
// which the broker has continued. The user could not name this directory, because the volume is
// replaced only after the consent.
func (r *Reconciler) gatherReplaced(ctx context.Context, object *v1alpha1.PartitionSet,
	set *partitionset.Set, b *ballot) error {
	var replaced map[string]string // directory id of the new volume, by UID of the lost volume's claim
	for name, topic := range b.Topics {
		for partition, consent := range topic.AcceptedDataLoss {
			entry, _ := set.Get(partitionset.Key{Topic: name, Index: partition})
			if entry.State == nil {
				continue // the partition is in another set, or has had no election yet
			}
			if replaced == nil {
				var err error
				if replaced, err = r.replacedClaims(ctx, object, b); err != nil {
					return err
				}
			}
			if directory := replaced[placement.ConsentedID(consent,
				entry.State.LeaderEpoch)]; directory != "" {
				topic.AcceptedDataLoss[partition] = directory
			}
		}
	}
	return nil
}

// replacedClaims returns the directory ids of replacement volumes, by UID of the lost volume's
// claim.
func (r *Reconciler) replacedClaims(ctx context.Context, object *v1alpha1.PartitionSet,
	b *ballot) (map[string]string, error) {
	replaced := map[string]string{}
	for id := range b.Brokers {
		lease, err := brokerstate.GetLease(ctx, r.Client, types.NamespacedName{
			Namespace: object.Namespace, Name: v1alpha1.BrokerLeaseName(object.Spec.Cluster, id)})
		if err != nil {
			return nil, err
		}
		if lease == nil {
			continue
		}
		if claim := v1alpha1.LeaseReplacedClaim(lease); claim != "" {
			replaced[claim] = v1alpha1.ReadRegistration(lease).Directory
		}
	}
	return replaced, nil
}
