package sets

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// store implements commit.API. A set's name is <namespace>/<name>. If a set was deleted and created
// again, store returns it with its last status.
type store struct {
	client client.Client // reader of the cache
	live   client.Reader // reader of the API server, without a cache
}

// NewWriter returns a writer for all PartitionSets. live reads from the API server itself. The
// controllers decide again for each version of a set, so a decision to change nothing does not
// require a read.
func NewWriter(c client.Client, live client.Reader) *commit.Writer {
	return commit.New(store{c, live}, commit.Options{TrustWatch: true})
}

// Name returns the name with which a writer from NewWriter identifies a set.
func Name(key types.NamespacedName) string { return key.String() }

func parseName(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Latest implements commit.API. If the cache has no valid version of a set, the set is read from
// the API server.
func (s store) Latest(name string) *v1alpha1.PartitionSet {
	set := &v1alpha1.PartitionSet{}
	if s.client.Get(context.Background(), parseName(name), set) != nil {
		return nil
	}
	restored, err := laststatus.Restored(set)
	if err != nil {
		return nil
	}
	return restored
}

// Get implements commit.API.
func (s store) Get(ctx context.Context, name string) (*v1alpha1.PartitionSet, error) {
	set := &v1alpha1.PartitionSet{}
	if err := s.live.Get(ctx, parseName(name), set); err != nil {
		return nil, wrap(err, "get", name)
	}
	return laststatus.Restored(set)
}

// UpdateSpec implements commit.API.
func (s store) UpdateSpec(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	updated := set.DeepCopy()
	if err := s.client.Update(ctx, updated); err != nil {
		return nil, wrap(err, "update", set.Name)
	}
	return updated, nil
}

// UpdateStatus implements commit.API.
func (s store) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	updated := set.DeepCopy()
	if err := s.client.Status().Update(ctx, updated); err != nil {
		return nil, wrap(err, "update the status of", set.Name)
	}
	return updated, nil
}

func wrap(err error, verb, name string) error {
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %s PartitionSet %s", commit.ErrConflict, verb, name)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %s PartitionSet %s", commit.ErrNotFound, verb, name)
	}
	return fmt.Errorf("%s PartitionSet %s: %w", verb, name, err)
}
