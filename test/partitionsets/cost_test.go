package partitionsets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/envtest"
)

// watchers is the number of watches on all sets: three brokers and an operator.
const watchers = 4

// server is a real API server with a namespace.
type server struct {
	client.WithWatch
	namespace string
}

func start(b *testing.B) server {
	b.Helper()
	config := envtest.Start(b)
	namespace, err := envtest.Namespace(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	s := server{c, namespace}
	for range watchers {
		w, err := c.Watch(b.Context(), &v1alpha1.PartitionSetList{}, client.InNamespace(namespace))
		if err != nil {
			b.Fatal(err)
		}
		go drain(w)
		b.Cleanup(w.Stop)
	}
	return s
}

func drain(w watch.Interface) {
	for range w.ResultChan() { // only the cost of the events matters
	}
}

// create creates a set to which the given number of partitions is assigned. It returns the set's
// name.
func (s server) create(b *testing.B, cluster string, index, count int32,
	first, partitions int) string {
	b.Helper()
	set := &v1alpha1.PartitionSet{}
	set.Namespace, set.Name = s.namespace, v1alpha1.PartitionSetName(cluster, index)
	set.Spec = v1alpha1.PartitionSetSpec{Cluster: cluster, Index: index, Count: count}
	assigned, _ := partitionset.Decode(set, nil)
	for i := range partitions {
		assigned.Assign(key(first+i),
			partitionset.Assignment{Replicas: []int32{0, 1, 2}, Tag: "k3f9x2ab"})
	}
	assigned.EncodeSpec(set)
	if err := s.Create(b.Context(), set); err != nil {
		b.Fatal(err)
	}
	return set.Name
}

// api is one writer's commit.API, without a watch.
type api struct{ server }

func (a api) Latest(string) *v1alpha1.PartitionSet { return nil }

func (a api) Get(ctx context.Context, name string) (*v1alpha1.PartitionSet, error) {
	set := &v1alpha1.PartitionSet{}
	return set, a.server.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, set)
}

func (a api) UpdateSpec(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	set = set.DeepCopy()
	return set, conflict(a.Update(ctx, set))
}

func (a api) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	set = set.DeepCopy()
	return set, conflict(a.Status().Update(ctx, set))
}

func conflict(err error) error {
	if apierrors.IsConflict(err) {
		return errors.Join(commit.ErrConflict, err)
	}
	return err
}

// state returns the state of a partition with three replicas. Its ids have the same sizes as in
// practice.
func state(epoch int32) partitionset.State {
	s := partitionset.State{Partition: placement.Partition{Leader: 1, LeaderEpoch: epoch,
		Replicas: []int32{0, 1, 2}, ReplicaIncarnations: map[int32]string{}}, Serving: true}
	for _, id := range s.Replicas {
		s.ISR = append(s.ISR, placement.InSyncReplica{Broker: id, Epoch: 12,
			Directory: "Vx0hXnY7Q0W2p1a0m3l6b" + strconv.Itoa(int(id))})
		s.ReplicaIncarnations[id] = "mZ81cQx4"
	}
	return s
}

func key(topic int) partitionset.Key {
	return partitionset.Key{Topic: fmt.Sprintf("topic-%04d", topic)}
}

// change returns a change of the given number of partitions in a set.
func change(first, partitions int, epoch int32) commit.Change {
	return func(s *partitionset.Set) error {
		for index := range partitions {
			s.PutState(key(first+index), state(epoch))
		}
		return nil
	}
}

// BenchmarkStatusWrite measures one status write of a set.
func BenchmarkStatusWrite(b *testing.B) {
	s := start(b)
	for i, partitions := range []int{1, 60, 250, 1000, 4000} {
		name := s.create(b, fmt.Sprintf("cost-%d", i), 0, 1, 0, partitions)
		writer := commit.New(api{s}, commit.Options{})
		epoch := int32(0)
		b.Run(strconv.Itoa(partitions), func(b *testing.B) {
			before := cpu(b)
			for b.Loop() {
				epoch++
				if err := writer.ChangeStatus(b.Context(), name,
					change(0, partitions, epoch)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N),
				"server-cpu-ms/op")
			stored, err := api{s}.Get(b.Context(), name)
			if err != nil {
				b.Fatal(err)
			}
			text, err := json.Marshal(stored)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(text)), "bytes")
		})
	}
}

// BenchmarkChangeAll measures the time that three writers need to change each of 1,000 partitions.
func BenchmarkChangeAll(b *testing.B) {
	s := start(b)
	for _, sets := range []int{4, 16, 64} {
		var names []string
		for index := range sets {
			names = append(names, s.create(b, fmt.Sprintf("all-%d", sets), int32(index),
				int32(sets), index*1000/sets, 1000/sets))
		}
		epoch := int32(0)
		b.Run(strconv.Itoa(sets), func(b *testing.B) {
			before, writes := cpu(b), new(atomic.Int64)
			for b.Loop() {
				var done sync.WaitGroup
				for range 3 {
					epoch++
					writer := commit.New(counting{api{s}, writes}, commit.Options{Concurrent: 16})
					for i, name := range names {
						done.Go(func() {
							if err := writer.ChangeStatus(b.Context(), name,
								change(i*1000/sets, 1000/sets, epoch)); err != nil {
								b.Error(err)
							}
						})
					}
				}
				done.Wait()
			}
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N),
				"server-cpu-ms/op")
			b.ReportMetric(float64(writes.Load())/float64(b.N), "writes/op")
		})
	}
}

// counting counts the attempts to write.
type counting struct {
	api
	writes *atomic.Int64
}

func (c counting) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	c.writes.Add(1)
	return c.api.UpdateStatus(ctx, set)
}

// cpu returns the CPU time used by the test's child processes, etcd and kube-apiserver.
func cpu(b *testing.B) (total time.Duration) {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, ticks := range fields[11:13] {
			n, err := strconv.Atoi(ticks)
			if err != nil {
				b.Fatal(err)
			}
			total += time.Duration(n) * 10 * time.Millisecond // USER_HZ is 100
		}
	}
	return total
}
