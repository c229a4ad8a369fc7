package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
)

// changeISR makes one ISR change and returns its outcome.
func changeISR(t *testing.T, s metadata.Store, change metadata.ISRChange) (err error) {
	s.ChangeISR(t.Context(), []metadata.ISRChange{change},
		func(_ int, _ int64, fault error) { err = fault })
	return err
}

// store returns a store of package local on a disk in memory.
func store(t *testing.T) *local.Store {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(mem, "/data/metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// broker is a running Client whose connection is served by Serve.
type broker struct {
	*Client
	conn   net.Conn
	images chan *metadata.Image
	stop   context.CancelFunc
	ran    chan error // channel for the error of Run
	served chan error // channel for the error of Serve
}

func start(t *testing.T, s *local.Store, id int32) *broker {
	t.Helper()
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{
		Client: NewClient(near), conn: near, images: make(chan *metadata.Image, 1000), stop: cancel,
		ran: make(chan error, 1), served: make(chan error, 1),
	}
	go func() {
		b.served <- Serve(context.Background(), far, id,
			local.Session{Store: s, Broker: id})
	}()
	go func() {
		b.ran <- b.Run(ctx, metadata.Broker{ID: id, Endpoints: "kafka://127.0.0.1:9092",
			CleanEpoch: -1},
			func(i *metadata.Image) { b.images <- i })
	}()
	return b
}

func TestClientIsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		// These settings set every field of an image.
		cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"}}
		spec := `{brokers: 1, adminAPI: ReadWrite, autoCreateTopics: true, cleaner: {workers: 2}, replication: {maxLag: 3s},
			groups: {minSessionTimeout: 1s, offsetsRetention: 1h, offsetsTopic: {partitions: 3}}, topicDefaults: {retention: {time: 1h}}}`
		if err := errors.Join(yaml.Unmarshal([]byte(spec), &cluster.Spec),
			s.Sync(cluster, 1, nil)); err != nil {
			t.Fatal(err)
		}
		b := start(t, s, 0)
		<-b.images
		created, err := b.CreateTopic(t.Context(),
			metadata.NewTopic{Name: "a", Partitions: 2, Replicas: 1,
				Properties: map[string]string{"cleanup.policy": "compact"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Image().Topic("a"), created); diff != "" {
			t.Errorf("topic (-want +got):\n%s", diff)
		}
		synctest.Wait()
		var last *metadata.Image
		for len(b.images) > 0 {
			last = <-b.images
		}
		if last.Groups.OffsetsPartitions != 3 || last.Replication.LagMax != 3*time.Second ||
			!last.Policy.AutoCreate {
			t.Errorf("the image has groups %+v, replication %+v, policy %+v", last.Groups,
				last.Replication,
				last.Policy)
		}
		if diff := cmp.Diff(s.Image(), last,
			cmpopts.IgnoreUnexported(metadata.Image{})); diff != "" ||
			last.TopicByID(created.ID) == nil {
			t.Errorf("image (-want +got):\n%s", diff)
		}
		p := created.Partitions[0]
		if err := b.ReportServing(t.Context(), 0,
			[]metadata.Served{{Topic: created.ID, LeaderEpoch: p.LeaderEpoch},
				{Topic: created.ID, Partition: 1, LeaderEpoch: 1}}); err != nil {
			t.Error(err)
		}
		if err := s.AwaitServing(t.Context()); err != nil {
			t.Error(err)
		}
		self, _ := s.Image().Broker(0)
		change := metadata.ISRChange{Topic: created.ID, LeaderEpoch: p.LeaderEpoch, From: p.ISR,
			To: []metadata.InSync{{Broker: 0, Epoch: self.Epoch,
				ReplicaIncarnation: p.ReplicaIncarnation(0)}}}
		if err := changeISR(t, b, change); err != nil {
			t.Error(err)
		}
		change.LeaderEpoch++
		if err := changeISR(t, b, change); !errors.Is(err, metadata.ErrISRConflict) {
			t.Errorf("conflicting change: error %v, want ErrISRConflict", err)
		}
		if _, err := b.CreateTopic(t.Context(),
			metadata.NewTopic{Name: "a", Partitions: 1, Replicas: 1}); !errors.Is(err,
			metadata.ErrTopicExists) {
			t.Errorf("second topic of the name: error %v, want ErrTopicExists", err)
		}
		if err := b.AlterCluster(t.Context(), metadata.ClusterChange{
			Properties: []metadata.PropertyChange{{Name: "group.max.size", Value: "7"}},
		}); !errors.Is(err, metadata.ErrPolicy) {
			t.Errorf("change of a LogCluster with a manifest: error %v, want ErrPolicy", err)
		}
		placed := metadata.NewTopic{Name: "placed", Partitions: 1, Replicas: 1,
			Assignment: [][]int32{{0}}}
		if _, err := b.CreateTopic(t.Context(), placed); err != nil {
			t.Error(err)
		}
		// An empty assignment assigns no replicas to the added partition. It differs from no assignment.
		for _, assignment := range [][][]int32{{{7}}, {}} {
			err := b.CreatePartitions(t.Context(),
				metadata.NewPartitions{Name: "placed", Count: 2, Assignment: assignment})
			if !errors.Is(err, metadata.ErrInvalidAssignment) {
				t.Errorf("assignment %v: error %v, want ErrInvalidAssignment", assignment, err)
			}
		}
		if err := errors.Join(b.CreatePartitions(t.Context(), metadata.NewPartitions{Name: "placed",
			Count: 2, Assignment: [][]int32{{0}}}), b.DeleteTopic(t.Context(), "placed")); err != nil {
			t.Error(err)
		}
		if err := b.AnnounceShutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if self, _ = s.Image().Broker(0); !self.Leaving {
			t.Error("the store does not show the broker as Leaving")
		}
		if err := b.DeleteTopic(t.Context(), "a"); err != nil || s.Image().Topic("a") != nil {
			t.Errorf("DeleteTopic: error %v, or the topic still exists", err)
		}
		if err := b.RecordRemoved(t.Context(), 0, []metadata.RetainedPartition{{Topic: "a",
			Tag: "abcdefgh"}}); err != nil {
			t.Errorf("a partition that is not being removed: %v", err)
		}
		b.stop()
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
		if err := <-b.served; err != nil || len(s.Image().Brokers) != 0 {
			t.Errorf("after unregistering: error %v, brokers %v", err, s.Image().Brokers)
		}
		if err := b.AnnounceShutdown(t.Context()); err == nil {
			t.Error("a client without a connection got no error")
		}
	})
}

// TestClusterIsAlteredThroughTheClient checks that changes of the LogCluster are applied if there
// is no manifest.
func TestClusterIsAlteredThroughTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		b := start(t, s, 0)
		<-b.images
		set := func(name, value string) error {
			return b.AlterCluster(t.Context(), metadata.ClusterChange{
				Properties: []metadata.PropertyChange{{Name: name, Value: value}}})
		}
		if err := set("group.max.size", "7"); err != nil || s.Image().Groups.MembersMax != 7 {
			t.Errorf("got error %v and groups %+v", err, s.Image().Groups)
		}
		group := metadata.ClusterChange{Group: "g", Properties: []metadata.PropertyChange{
			{Name: "consumer.session.timeout.ms", Value: "50000"}}}
		if err := b.AlterCluster(t.Context(), group); err != nil ||
			s.Image().GroupOverrides["g"].ConsumerSession != 50*time.Second {
			t.Errorf("got error %v and overrides %+v", err, s.Image().GroupOverrides)
		}
		for image := range b.images { // the broker receives the settings of the group
			if image.GroupOverrides["g"].ConsumerSession == 50*time.Second {
				break
			}
		}
		if err := set("group.max.size", "x"); !errors.Is(err, metadata.ErrInvalidProperty) {
			t.Errorf("got error %v, want ErrInvalidProperty", err)
		}
		b.stop()
		<-b.ran
	})
}

// TestSettingsThroughTheClientAreTheTopics checks that the broker's image lists the settings that a
// topic sets itself, even if they equal the defaults.
func TestSettingsThroughTheClientAreTheTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, store(t), 0)
		<-b.images
		created, err := b.CreateTopic(t.Context(), metadata.NewTopic{Name: "t", Partitions: 1,
			Replicas: -1, Properties: map[string]string{"retention.ms": "604800000"}})
		if err != nil || !slices.Equal(created.Own, []string{"retention.ms"}) {
			t.Errorf("got topic %+v and error %v", created, err)
		}
		if err := b.AlterTopic(t.Context(), metadata.TopicChange{Name: "t",
			Properties: []metadata.PropertyChange{{Name: "segment.ms",
				Value: "604800000"}}}); err != nil {
			t.Error(err)
		}
		for image := range b.images {
			if topic := image.Topic("t"); topic != nil &&
				slices.Equal(topic.Own, []string{"retention.ms", "segment.ms"}) {
				break
			}
		}
		b.stop()
		<-b.ran
	})
}

// TestClosedConnectionMarksBrokerDown checks that, when a broker's connection is closed because its
// process exits, the store regards the broker as down, and the client's Run fails.
func TestClosedConnectionMarksBrokerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		b := start(t, s, 0)
		<-b.images
		_ = b.conn.Close()
		if err := <-b.served; err == nil || len(s.Image().Brokers) != 0 {
			t.Errorf("Serve: error %v, brokers %v, want an error and none", err, s.Image().Brokers)
		}
		if err := <-b.ran; err == nil {
			t.Error("Run returned no error without its store")
		}
	})
}

// TestSilentBrokerIsDownAfterSessionTimeout checks that the store regards a broker that sends
// nothing for sessionTimeout as down, and closes its connection. So Run fails in a process that was
// suspended and continues.
func TestSilentBrokerIsDownAfterSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- Serve(context.Background(), far, 0, local.Session{Store: s}) }()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		time.Sleep(time.Hour) // the first request has no deadline
		if err := writeFrame(near,
			request{ID: 1, Op: opRun, Self: &metadata.Broker{ID: 0}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(s.Image().Brokers) != 1 {
			t.Fatal("the broker is not up after it registered")
		}
		time.Sleep(sessionTimeout - time.Millisecond)
		if len(s.Image().Brokers) != 1 {
			t.Error("the broker is down before the session timeout")
		}
		if err := <-served; err == nil || len(s.Image().Brokers) != 0 {
			t.Errorf("Serve: error %v, brokers %v, want an error and none", err, s.Image().Brokers)
		}
		if _, err := near.Write([]byte{0}); err == nil {
			t.Error("the connection is still open")
		}
	})
}

// TestRunReturnsWhileItsStoreHangs checks that Run returns within sessionTimeout even if the store
// does not read the request to unregister.
func TestRunReturnsWhileItsStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() {
			ran <- NewClient(near).Run(ctx, metadata.Broker{ID: 0},
				func(*metadata.Image) {})
		}()
		var first request
		if err := readFrame(far, 1<<20, &first); err != nil ||
			writeFrame(far, reply{ID: first.ID}) != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		begin := time.Now()
		select {
		case err := <-ran:
			if took := time.Since(begin); err != nil || took > sessionTimeout {
				t.Errorf("Run returned error %v after %v", err, took)
			}
		case <-time.After(time.Hour):
			t.Error("Run does not return")
			_ = near.Close()
			<-ran
		}
	})
}

func TestServeRejectsAnotherBrokerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		near, far := net.Pipe()
		go func() {
			_ = writeFrame(near,
				request{ID: 1, Op: opRun, Self: &metadata.Broker{ID: 1}})
		}()
		if err := Serve(t.Context(), far, 0, local.Session{Store: s}); err == nil ||
			!strings.Contains(err.Error(), "with another id") {
			t.Errorf("Serve: error %v, want one about another id", err)
		}
	})
}

func TestFramesHaveLimits(t *testing.T) {
	var r request
	if err := readFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, 11)), 10,
		&r); err == nil || !strings.Contains(err.Error(), "limit of 10") {
		t.Errorf("message above the limit: error %v", err)
	}
	if err := readFrame(strings.NewReader("\x00\x00\x00\x05{"), 10, &r); !errors.Is(err, io.EOF) {
		t.Errorf("truncated message: error %v, want io.EOF", err)
	}
	if err := readFrame(strings.NewReader("\x00\x00\x00\x0a{\"odd\":1}\n"), 10, &r); err == nil {
		t.Error("an unknown field was accepted")
	}
}

// FuzzReadFrame checks that arbitrary bytes are decoded to a message or an error, and that a
// decoded message can be encoded again.
func FuzzReadFrame(f *testing.F) {
	var frame bytes.Buffer
	_ = writeFrame(&frame, request{ID: 7, Op: opServing, Served: []metadata.Served{{Partition: 1}}})
	f.Add(frame.Bytes())
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, content []byte) {
		var r request
		if readFrame(bytes.NewReader(content), 1<<16, &r) == nil {
			if err := writeFrame(io.Discard, r); err != nil {
				t.Fatal(err)
			}
		}
		var answered reply
		if readFrame(bytes.NewReader(content), 1<<16, &answered) == nil {
			_ = answered.err()
		}
	})
}
