package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// run starts brokers and waits until each of them is in its own image. stop stops these brokers.
func run(t *testing.T, s *Store, ids ...int32) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, id := range ids {
		up := make(chan struct{})
		running.Go(func() {
			var once sync.Once
			err := s.Run(ctx, metadata.Broker{ID: id, Endpoints: metadata.Endpoints(
				fmt.Sprintf("kafka://127.0.0.1:%d", 9092+id))},
				func(image *metadata.Image) {
					if _, ok := image.Broker(id); ok {
						once.Do(func() { close(up) })
					}
				})
			if err != nil {
				t.Errorf("broker %d: %v", id, err)
				once.Do(func() { close(up) })
			}
		})
		<-up
	}
	return func() { cancel(); running.Wait() }
}

func TestLeadersFollowTheirBrokers(t *testing.T) {
	s := open(t, memory(t))
	if err := s.Sync(nil, 2, topics(t, `a {partitions: 2}`)); err != nil {
		t.Fatal(err)
	}
	leaders := func() [][2]int32 {
		var all [][2]int32
		for _, p := range s.Image().Topic("a").Partitions {
			all = append(all, [2]int32{p.Leader, p.LeaderEpoch})
		}
		return all
	}
	expect := func(when string, want ...[2]int32) {
		t.Helper()
		if diff := cmp.Diff(want, leaders()); diff != "" {
			t.Errorf("%s: leader and epoch (-want +got):\n%s", when, diff)
		}
	}
	expect("no broker up", [2]int32{-1, 0}, [2]int32{-1, 0})
	stop0 := run(t, s, 0)
	expect("broker 0 up", [2]int32{0, 1}, [2]int32{-1, 0})
	stop1 := run(t, s, 1)
	expect("both up", [2]int32{0, 1}, [2]int32{1, 1})
	if b, _ := s.Image().Broker(1); b.Endpoints != "kafka://127.0.0.1:9093" || b.Epoch != 1 {
		t.Errorf("got broker 1 %+v", b)
	}
	stop0()
	expect("broker 0 down", [2]int32{-1, 2}, [2]int32{1, 1})
	defer run(t, s, 0)()
	expect("broker 0 back", [2]int32{0, 3}, [2]int32{1, 1})
	if b, _ := s.Image().Broker(0); b.Epoch != 2 {
		t.Errorf("broker 0 has epoch %d after its restart, want 2", b.Epoch)
	}
	if err := s.Run(t.Context(), metadata.Broker{ID: 0}, nil); err == nil ||
		!strings.Contains(err.Error(), "up already") {
		t.Errorf("registering broker 0 twice: got error %v", err)
	}
	stop1()
}

// TestEveryBrokerGetsTheLastImage checks that a slow broker may skip images, but receives images in
// order and always receives the last one.
func TestEveryBrokerGetsTheLastImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory(t))
		ctx, cancel := context.WithCancel(t.Context())
		seen := make([][]int, 3) // number of topics in each image, by broker
		var running sync.WaitGroup
		for id := range int32(3) {
			running.Go(func() {
				_ = s.Run(ctx, metadata.Broker{ID: id}, func(image *metadata.Image) {
					seen[id] = append(seen[id], len(image.Topics))
					time.Sleep(time.Duration(id) * 3 * time.Second)
				})
			})
		}
		synctest.Wait()
		for i := range 20 {
			_, err := s.CreateTopic(ctx,
				metadata.NewTopic{Name: string(rune('a' + i)), Partitions: 1, Replicas: 1})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		for id, counts := range seen {
			for i := 1; i < len(counts); i++ {
				if counts[i] < counts[i-1] {
					t.Errorf(
						"broker %d received an older image after a newer one; topics in each image: %v",
						id,
						counts,
					)
				}
			}
			if counts[len(counts)-1] != 20 {
				t.Errorf("broker %d did not receive the last image; topics in each image: %v", id, counts)
			}
		}
	})
}

func TestAwaitServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory(t))
		if err := s.AwaitServing(t.Context()); err != nil {
			t.Errorf("AwaitServing without topics: got error %v", err)
		}
		if err := s.Sync(nil, 1, topics(t, `a {partitions: 2}`)); err != nil {
			t.Fatal(err)
		}
		stop := run(t, s, 0)
		id := s.Image().Topic("a").ID
		serving := func(served ...metadata.Served) {
			t.Helper()
			if err := s.ReportServing(t.Context(), 0, served); err != nil {
				t.Fatal(err)
			}
		}
		returned := make(chan error, 1)
		go func() { returned <- s.AwaitServing(t.Context()) }()
		stillWaiting := func(when string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-returned:
				t.Fatalf("%s: AwaitServing returned %v", when, err)
			default:
			}
		}
		stillWaiting("nothing served")
		serving(metadata.Served{Topic: id, Partition: 0, LeaderEpoch: 1})
		stillWaiting("one of two served")
		serving(metadata.Served{Topic: id, Partition: 0, LeaderEpoch: 1},
			metadata.Served{Topic: id, Partition: 1, LeaderEpoch: 0})
		stillWaiting("one served in an old leader epoch")
		serving(metadata.Served{Topic: id, Partition: 0, LeaderEpoch: 1},
			metadata.Served{Topic: id, Partition: 1, LeaderEpoch: 1})
		if err := <-returned; err != nil {
			t.Error(err)
		}
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.AwaitServing(ctx)
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "partition a-0") {
			t.Errorf("after the broker stopped: got error %v, want DeadlineExceeded for partition a-0", err)
		}
	})
}

// TestCollidingTopicIsRefused checks that CreateTopics and manifests treat '.' and '_' in topic
// names as equal, as in Kafka. Colliding topics that already exist must remain, even after a
// restart.
func TestCollidingTopicIsRefused(t *testing.T) {
	mem := memory(t)
	s := open(t, mem)
	cluster := logCluster(t, `{}`)
	topics := []*v1alpha1.Topic{{ObjectMeta: metav1.ObjectMeta{Name: "a.b"},
		Spec: v1alpha1.TopicSpec{Cluster: cluster.Name, Partitions: 1}}}
	if err := s.Sync(cluster, 1, topics); err != nil {
		t.Fatal(err)
	}
	defer run(t, s, 0)()
	for _, validate := range []bool{false, true} {
		_, err := s.CreateTopic(t.Context(), metadata.NewTopic{Name: "a_b", Partitions: 1,
			Replicas: 1, Validate: validate})
		if !errors.Is(err, metadata.ErrInvalidTopicName) ||
			!strings.Contains(err.Error(), `collides with the existing topic "a.b"`) {
			t.Errorf("validate %t: got error %v", validate, err)
		}
	}
	other := topics[0].DeepCopy()
	other.Name, other.Spec.TopicName = "other", "a_b"
	err := s.Sync(cluster, 1, []*v1alpha1.Topic{topics[0], other})
	if !errors.Is(err, metadata.ErrInvalidTopicName) || s.Image().Topic("a_b") != nil {
		t.Errorf("colliding manifest: got error %v", err)
	}
	if err := s.Sync(cluster, 1, topics); err != nil || s.Image().Topic("a.b") == nil {
		t.Errorf("the older topic alone: got error %v", err)
	}
}

func TestCreateAndDeleteTopic(t *testing.T) {
	mem := memory(t)
	s := open(t, mem)
	if err := s.Sync(logCluster(t, `{topicDefaults: {compression: {type: zstd}}}`), 3,
		nil); err != nil {
		t.Fatal(err)
	}
	defer run(t, s, 0, 1, 2)()
	request := metadata.NewTopic{Name: "Orders", Partitions: 2, Replicas: -1,
		Properties: map[string]string{"cleanup.policy": "compact"}, Validate: true}
	checked, err := s.CreateTopic(t.Context(), request)
	if err != nil || checked.ID != (metadata.ID{}) || len(checked.Partitions) != 2 ||
		s.Image().Topic("Orders") != nil {
		t.Errorf("with Validate: got topic %+v, error %v", checked, err)
	}
	request.Validate = false
	created, err := s.CreateTopic(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if created != s.Image().Topic("Orders") || created.Partitions[0].Leader == metadata.NoBroker {
		t.Errorf("the returned topic is not the topic in the image: %+v", created)
	}
	if created.RetainData || !created.Settings.Compact || created.Settings.KeepCodec {
		t.Errorf(
			"got topic %+v, want reclaim policy Delete, compact, and the cluster's compression zstd",
			created,
		)
	}
	for _, validate := range []bool{false, true} {
		request.Validate = validate
		if _, err := s.CreateTopic(t.Context(), request); !errors.Is(err, metadata.ErrTopicExists) {
			t.Errorf("create again: got error %v, want ErrTopicExists", err)
		}
	}
	if again := open(t, mem.CrashClone()).Image().Topic("Orders"); again == nil ||
		again.ID != created.ID {
		t.Errorf("after a crash: got topic %+v, want the created one", again)
	}
	if err := s.DeleteTopic(t.Context(), "Orders"); err != nil || s.Image().Topic("Orders") != nil {
		t.Errorf("delete: got error %v, or the topic is still in the image", err)
	}
	if err := s.DeleteTopic(t.Context(), "Orders"); !errors.Is(err, metadata.ErrTopicNotFound) {
		t.Errorf("delete again: got error %v, want ErrTopicNotFound", err)
	}
}

// TestOrderOfFileOperations checks that the file operations are in the order that section Writing
// of docs/internals/format/local-metadata.md documents.
func TestOrderOfFileOperations(t *testing.T) {
	trace := vfs.NewTrace(memory(t), directory)
	s := open(t, trace)
	trace.Take()
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "a", Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for line := range strings.Lines(trace.Take()) {
		words := strings.Fields(line)
		ops = append(ops, words[0]+" "+words[1])
	}
	want := []string{
		"create metadata.json.tmp", "write metadata.json.tmp", "sync metadata.json.tmp",
		"rename metadata.json.tmp", "sync-dir .",
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if err := s.Sync(nil, 1, nil); err != nil || trace.Take() != "" {
		t.Errorf("a Sync without changes wrote the file or failed: %v", err)
	}
}

func TestFailedWriteChangesNothing(t *testing.T) {
	fault := vfs.NewFault(memory(t))
	s := open(t, fault)
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	request := metadata.NewTopic{Name: "a", Partitions: 1, Replicas: 1}
	if _, err := s.CreateTopic(t.Context(), request); !errors.Is(err, syscall.ENOSPC) ||
		s.Image().Topic("a") != nil {
		t.Errorf("create: got error %v, topic %v, want ENOSPC and no topic", err, s.Image().Topic("a"))
	}
	if err := s.Sync(nil, 1, topics(t, `b {partitions: 1}`)); !errors.Is(err, syscall.ENOSPC) ||
		s.Image().Topic("b") != nil {
		t.Errorf("sync: got error %v, topic %v, want ENOSPC and no topic", err, s.Image().Topic("b"))
	}
	if err := s.Run(t.Context(), metadata.Broker{ID: 0}, nil); !errors.Is(err, syscall.ENOSPC) ||
		len(s.Image().Brokers) != 0 {
		t.Errorf("run: got error %v, brokers %v, want ENOSPC and no broker", err, s.Image().Brokers)
	}
	fault.Clear()
	if _, err := s.CreateTopic(t.Context(), request); err != nil {
		t.Errorf("create after the fault: got error %v", err)
	}
	run(t, s, 0)()
}

func TestCorruptFileIsRejected(t *testing.T) {
	mem := memory(t)
	if err := vfs.WriteFileAtomic(mem, file, []byte(`{"version": 1`)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(mem, file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got error %v, want one with the name of the file", err)
	}
}

// TestLeaderWhoseLogFailsIsReplaced checks that a leader that no longer serves a partition that it
// served in its leader epoch is replaced by another in-sync replica and leaves the ISR, even if the
// change's first write fails. A partition's only replica must remain the leader, and so must a
// leader that has not served yet.
func TestLeaderWhoseLogFailsIsReplaced(t *testing.T) {
	fault := vfs.NewFault(memory(t))
	s := open(t, fault)
	if err := s.Sync(nil, 2, nil); err != nil {
		t.Fatal(err)
	}
	defer run(t, s, 0, 1)()
	if err := s.Sync(nil, 2, topics(t, `a {partitions: 1, replicas: 2}`,
		`b {partitions: 1, replicas: 1}`)); err != nil {
		t.Fatal(err)
	}
	before := map[string]*metadata.Partition{}
	for _, name := range []string{"a", "b"} {
		p := s.Image().Topic(name).Partitions[0]
		before[name] = p
		for range 2 { // the first report is about a partition that is not served yet, and changes nothing
			if err := s.ReportServing(t.Context(), p.Leader, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Image().Topic(name).Partitions[0]; !got.Equal(p) {
			t.Fatalf("%s: before it is served: got %+v, want %+v", name, got, p)
		}
		if err := s.ReportServing(t.Context(), p.Leader, []metadata.Served{{
			Topic: s.Image().Topic(name).ID, LeaderEpoch: p.LeaderEpoch}}); err != nil {
			t.Fatal(err)
		}
		if name == "a" {
			fault.Inject(vfs.Rule{Op: vfs.OpWrite, Times: 1})
			if err := s.ReportServing(t.Context(), p.Leader, nil); !errors.Is(err, ErrNotWritten) {
				t.Fatalf("a report that is not written: got error %v", err)
			}
		}
		if err := s.ReportServing(t.Context(), p.Leader, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, b := s.Image().Topic("a").Partitions[0], s.Image().Topic("b").Partitions[0]
	if other := 1 - before["a"].Leader; a.Leader != other || !slices.Equal(a.ISR, []int32{other}) ||
		a.LeaderEpoch <= before["a"].LeaderEpoch {
		t.Errorf("a: got %+v, want broker %d to lead alone, before %+v", a, other, before["a"])
	}
	if !b.Equal(before["b"]) {
		t.Errorf("the only replica: got %+v, want %+v", b, before["b"])
	}
}
