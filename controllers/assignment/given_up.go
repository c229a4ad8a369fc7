package assignment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// consentChanged selects updates of a LogCluster that change one of two annotations: the consent to
// remove retained records, or the consent to fill disks when brokers are removed.
var consentChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
	return before[v1alpha1.AnnotationRemoveRetained] != after[v1alpha1.AnnotationRemoveRetained] ||
		before[v1alpha1.AnnotationDrainAnyway] != after[v1alpha1.AnnotationDrainAnyway]
}}

// settle removes consents from a LogCluster's annotation once they are processed. A consent is
// processed when the removal of its records has begun, which the entries record, or when there is
// nothing to remove. An event reports which of the two is the case.
func (r *Reconciler) settle(ctx context.Context, in input) error {
	if in.cluster == nil || !in.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	all := in.cluster.GivenUp()
	left := slices.DeleteFunc(slices.Clone(all), func(g v1alpha1.GivenUp) bool {
		return in.outcome(g) != waiting
	})
	if len(left) == len(all) {
		return nil
	}
	next := in.cluster.DeepCopy()
	words := make([]string, len(left))
	for i, g := range left {
		words[i] = g.String()
	}
	next.Annotations[v1alpha1.AnnotationRemoveRetained] = strings.Join(words, " ")
	if len(left) == 0 {
		delete(next.Annotations, v1alpha1.AnnotationRemoveRetained)
	}
	// If a user adds a consent during the pass, the patch fails with a conflict and the consent is
	// kept.
	if err := r.Patch(ctx, next, client.MergeFromWithOptions(in.cluster,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s: %w", v1alpha1.AnnotationRemoveRetained, err)
	}
	for _, g := range all {
		switch in.outcome(g) {
		case began:
			r.Events.Normal(next, v1alpha1.EventRemovingRetained, "RemoveRetained",
				"The brokers delete the retained records of the deleted topic %.249q, id %.8s.", g.Topic,
				g.ID)
		case kept:
			r.Events.Warning(next, v1alpha1.EventRetainedKept, "RemoveRetained",
				"The annotation %s contained %.258q, but no such records are retained, or the Topic "+
					"exists again. Nothing was removed.", v1alpha1.AnnotationRemoveRetained, g.String())
		}
	}
	return nil
}

// These are the outcomes of a consent.
const (
	waiting = iota // some partitions are retained, or not yet marked as retained
	began          // all partitions are being removed
	kept           // there is nothing to remove
)

// outcome returns a consent's outcome in the state before this pass.
func (in input) outcome(g v1alpha1.GivenUp) int {
	removing, others := false, false
	for key, entry := range in.sets.All() {
		if a := entry.Assignment; a != nil && key.Topic == g.Topic && a.Tag == g.ID {
			removing = removing || a.Reclaim == partitionset.Remove
			others = others || a.Reclaim != partitionset.Remove
		}
	}
	exists := slices.ContainsFunc(in.topics,
		func(topic *v1alpha1.Topic) bool { return topic.Name == g.Topic })
	switch {
	case others && (removing || !exists):
		return waiting
	case removing:
		return began
	}
	return kept
}
