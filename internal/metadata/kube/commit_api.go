package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// commitAPI implements commit.API with the store's watch and client. The client must not retry
// writes by itself (no_retry.go), because ErrConflict must prove that nothing was written.
type commitAPI struct{ store *Store }

// Latest implements commit.API. It returns nil before the watch has delivered all sets.
func (a commitAPI) Latest(set string) *v1alpha1.PartitionSet {
	if a.store.directory.Load() == nil {
		return nil
	}
	watched := &v1alpha1.PartitionSet{}
	if a.store.cache.Get(context.Background(), a.key(set), watched) != nil {
		return nil
	}
	return watched
}

// Get implements commit.API. The read is linearizable.
func (a commitAPI) Get(ctx context.Context, set string) (*v1alpha1.PartitionSet, error) {
	stored := &v1alpha1.PartitionSet{}
	if err := a.store.client.Get(ctx, a.key(set), stored); err != nil {
		return nil, commitError(set, err)
	}
	return stored, nil
}

// UpdateSpec implements commit.API.
func (a commitAPI) UpdateSpec(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return a.update(ctx, set, func(next *v1alpha1.PartitionSet) error {
		return a.store.client.Update(ctx, next)
	})
}

// UpdateStatus implements commit.API.
func (a commitAPI) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return a.update(ctx, set, func(next *v1alpha1.PartitionSet) error {
		return a.store.client.Status().Update(ctx, next)
	})
}

func (a commitAPI) update(_ context.Context, set *v1alpha1.PartitionSet,
	write func(*v1alpha1.PartitionSet) error) (*v1alpha1.PartitionSet, error) {
	if set.ResourceVersion == "" {
		return nil, fmt.Errorf("%w: PartitionSet %s has no resourceVersion, without which a write "+
			"is not a compare-and-swap", commit.ErrConflict, set.Name)
	}
	// Copy the set, because the client decodes the response into its argument, and the watch uses
	// set's maps.
	next := set.DeepCopy()
	err := commitError(set.Name, write(next))
	a.store.metrics.wrote(err)
	if err != nil {
		return nil, err
	}
	return next, nil
}

func (a commitAPI) key(set string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.store.opts.Namespace, Name: set}
}

// commitError converts the API server's errors to errors of package commit.
func commitError(set string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", commit.ErrConflict, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", commit.ErrNotFound, err)
	}
	return fmt.Errorf("write or read PartitionSet %s: %w", set, err)
}
