package sets

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// Reader reads PartitionSets from the cache. It is safe for concurrent use.
type Reader struct {
	cache client.Reader
	mu    struct {
		sync.Mutex
		decoded map[types.NamespacedName]decoded
	}
}

// decoded is the latest decoded version of a set.
type decoded struct {
	uid     types.UID
	version string // resourceVersion
	set     *partitionset.Set
	faults  int
}

// NewReader returns a reader of a cache with the indexes of package index.
func NewReader(cache client.Reader) *Reader {
	r := &Reader{cache: cache}
	r.mu.decoded = map[types.NamespacedName]decoded{}
	return r
}

// Decode returns a set's content. If the set was deleted and created again, the content includes
// its last status. Decode logs entries that cannot be parsed when their number changes.
func (r *Reader) Decode(ctx context.Context, set *v1alpha1.PartitionSet) *partitionset.Set {
	key := client.ObjectKeyFromObject(set)
	r.mu.Lock()
	last := r.mu.decoded[key]
	r.mu.Unlock()
	if last.set != nil && last.uid == set.UID && last.version == set.ResourceVersion {
		return last.set
	}
	restored, err := laststatus.Restored(set)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to restore the status of a PartitionSet")
		restored = set
	}
	content, faults := partitionset.Decode(restored, last.set)
	if len(faults) != last.faults && len(faults) > 0 {
		ctrl.LoggerFrom(ctx).Error(faults[0], "failed to parse entries of a PartitionSet; their "+
			"partitions stay as they are until the entries are corrected", "set", key, "entries",
			len(faults))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.decoded[key] = decoded{set.UID, set.ResourceVersion, content, len(faults)}
	return content
}

// Forget removes the stored information about a deleted set.
func (r *Reader) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.decoded, key)
}

// Cluster contains a LogCluster's PartitionSets. It must not be changed.
type Cluster struct {
	// Count is the number of sets that the LogCluster has when all of them exist.
	Count int32
	// Objects contains the existing sets, and Sets their decoded content, by index.
	Objects map[int32]*v1alpha1.PartitionSet
	Sets    map[int32]*partitionset.Set
}

// OfCluster returns a LogCluster's sets from the cache.
func (r *Reader) OfCluster(ctx context.Context, namespace, cluster string) (*Cluster, error) {
	list := &v1alpha1.PartitionSetList{}
	if err := r.cache.List(ctx, list, client.InNamespace(namespace),
		client.MatchingFields{index.ByCluster: cluster}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PartitionSets: %w", err)
	}
	return newCluster(cluster, list.Items,
		func(set *v1alpha1.PartitionSet) *partitionset.Set { return r.Decode(ctx, set) }), nil
}

// Live returns a LogCluster's sets, read from the API server itself with live. It is used for
// decisions that cannot be undone, because the cache can be outdated. complete is false if a set
// does not exist or has an entry that cannot be parsed, because then not all partitions are known.
func Live(ctx context.Context, live client.Reader, namespace, cluster string) (c *Cluster,
	complete bool, err error) {
	list := &v1alpha1.PartitionSetList{}
	if err := live.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster}); err != nil {
		return nil, false, fmt.Errorf("list PartitionSets: %w", err)
	}
	complete = true
	c = newCluster(cluster, list.Items, func(set *v1alpha1.PartitionSet) *partitionset.Set {
		restored, err := laststatus.Restored(set)
		if err != nil {
			complete, restored = false, set
		}
		content, faults := partitionset.Decode(restored, nil)
		complete = complete && len(faults) == 0
		return content
	})
	return c, complete && int32(len(c.Sets)) == c.Count, nil
}

// newCluster returns the sets in items that belong to a LogCluster.
func newCluster(cluster string, items []v1alpha1.PartitionSet,
	decode func(*v1alpha1.PartitionSet) *partitionset.Set) *Cluster {
	c := &Cluster{Objects: make(map[int32]*v1alpha1.PartitionSet, len(items)),
		Sets: make(map[int32]*partitionset.Set, len(items))}
	for i := range items {
		set := &items[i]
		number := set.Spec.Index
		if set.Name != v1alpha1.PartitionSetName(cluster, number) || number >= set.Spec.Count {
			continue // not created by the operator
		}
		c.Count = max(c.Count, set.Spec.Count)
		c.Objects[number], c.Sets[number] = set, decode(set)
	}
	if c.Count == 0 {
		c.Count = v1alpha1.PartitionSets
	}
	return c
}

// Of returns the set to which a partition belongs, and the set's number. The set is nil if it does
// not exist.
func (c *Cluster) Of(key partitionset.Key) (*partitionset.Set, int32) {
	number := partitionset.Number(key, c.Count)
	return c.Sets[number], number
}

// Get returns the entry of a partition. It is empty if the set does not exist.
func (c *Cluster) Get(key partitionset.Key) partitionset.Entry {
	set, _ := c.Of(key)
	if set == nil {
		return partitionset.Entry{}
	}
	entry, _ := set.Get(key)
	return entry
}

// Invalid reports whether the entry of a partition cannot be parsed.
func (c *Cluster) Invalid(key partitionset.Key) bool {
	set, _ := c.Of(key)
	return set != nil && set.Invalid(key)
}

// All iterates over the entries of all sets in an undefined order.
func (c *Cluster) All() iter.Seq2[partitionset.Key, partitionset.Entry] {
	return func(yield func(partitionset.Key, partitionset.Entry) bool) {
		for _, set := range c.Sets {
			for key, entry := range set.All() {
				if !yield(key, entry) {
					return
				}
			}
		}
	}
}
