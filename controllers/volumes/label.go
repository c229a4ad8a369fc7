package volumes

import (
	"context"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// label adds LabelRemovedBroker to the claims of removed brokers, which lets users find them. It
// removes the label when a broker is added again.
func (r *Reconciler) label(ctx context.Context, in *input) error {
	for id, claim := range in.claims {
		want := ""
		if id >= in.running {
			want = strconv.Itoa(int(id))
		}
		if claim.Labels[v1alpha1.LabelRemovedBroker] == want || claim.DeletionTimestamp != nil {
			continue
		}
		next := claim.DeepCopy()
		next.Labels[v1alpha1.LabelRemovedBroker] = want
		if want == "" {
			delete(next.Labels, v1alpha1.LabelRemovedBroker)
		}
		if err := r.Patch(ctx, next, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("label claim %s: %w", claim.Name, err)
		}
	}
	return nil
}
