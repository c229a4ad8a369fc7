package scale

import (
	"context"
	"strconv"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// server is the API server. Every node has a watch on all sets.
type server struct {
	cpu      processor
	watchers int
	mu       sync.Mutex
	sets     map[string]version
	version  int
	writes   int
	conflict int
	news     map[*node]chan string // names of changed sets
}

// version is a version of a set. All nodes that watch the set share the decoded form.
type version struct {
	resource *v1alpha1.PartitionSet
	decoded  *partitionset.Set
}

// put stores a version and notifies the watchers.
func (s *server) put(set *v1alpha1.PartitionSet) *v1alpha1.PartitionSet {
	s.version++
	set.ResourceVersion = strconv.Itoa(s.version)
	decoded, _ := partitionset.Decode(set, s.sets[set.Name].decoded)
	s.sets[set.Name] = version{set, decoded}
	for _, news := range s.news {
		news <- set.Name
	}
	return set
}

func (s *server) current(name string) version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[name]
}

// update is a compare-and-swap of a set's status.
func (s *server) update(ctx context.Context,
	next *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	before := s.current(next.Name).resource
	size := len(next.Spec.Assignments)
	if err := s.cpu.run(ctx, readCPU(size)); err != nil { // decoding, and checking the version
		return nil, err
	}
	if s.current(next.Name).resource.ResourceVersion == before.ResourceVersion {
		cpu := writeCPU(size, s.watchers) - readCPU(size)
		if err := s.cpu.run(ctx, cpu); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.sets[next.Name].resource
	if stored.ResourceVersion != next.ResourceVersion {
		s.conflict++
		return nil, commit.ErrConflict
	}
	changed := *stored
	changed.Status = next.Status
	s.writes++
	return s.put(&changed), nil
}

// api is a node's access to the API server. It implements commit.API.
type api struct {
	server *server
	node   *node
}

func (a api) Latest(set string) *v1alpha1.PartitionSet {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	return a.node.seen[set].resource
}

func (a api) Get(ctx context.Context, set string) (*v1alpha1.PartitionSet, error) {
	current := a.server.current(set).resource
	if err := a.server.cpu.run(ctx, readCPU(len(current.Spec.Assignments))); err != nil {
		return nil, err
	}
	return a.server.current(set).resource, wait(ctx, roundTrip)
}

func (a api) UpdateSpec(context.Context, *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return nil, commit.ErrNotFound // assignments do not change in this simulation
}

func (a api) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	if err := wait(ctx, roundTrip); err != nil {
		return nil, err
	}
	return a.server.update(ctx, set)
}

// watch delivers changed sets to a node until ctx ends.
func (s *server) watch(ctx context.Context, n *node, changed func(set string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-s.news[n]:
			if wait(ctx, time.Millisecond) != nil {
				return
			}
			n.mu.Lock()
			n.seen[name] = s.current(name)
			n.mu.Unlock()
			changed(name)
		}
	}
}
