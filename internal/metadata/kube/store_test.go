package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/envtest"
)

// world is a namespace of a real API server with the LogCluster demo, and a client that may do all.
type world struct {
	t         *testing.T
	config    *rest.Config
	client    client.Client
	namespace string
}

func TestAgainstTheAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("make test sets KUBEBUILDER_ASSETS")
	}
	config := envtest.Start(t)
	for name, test := range map[string]func(*world){
		"resources become images":         testResourcesBecomeImages,
		"what is served is written":       testServing,
		"brokers see each other":          testBrokersSeeEachOther,
		"topics through Kafka":            testTopicsThroughKafka,
		"topics altered through Kafka":    testTopicsAltered,
		"partitions moved through Kafka":  testMoves,
		"a replaced incarnation ends":     testReplaced,
		"an API server that is away":      testOutage,
		"a lease that somebody deleted":   testDeletedLease,
		"waits for the LogCluster":        testWaitsForTheCluster,
		"needs no more than its Role":     testRole,
		"conflicts with the operator end": testServingConflict,
		"a log that is ahead is told":     testAhead,
		"a log that fails is told":        testStopped,
		"leases go with the LogCluster":   testLeaseOwner,
		"a LogCluster made again":         testRemadeCluster,
		"in-sync replicas change":         testChangeISR,
		"changes are refused":             testRefusals,
		"a broker that leaves":            testLeave,
		"an outage is told":               testOutageIsTold,
		"an answer that is lost":          testLostAnswer,
		"epochs outlive a lease":          testEpochsOutliveALease,
		"a new disk has ids of its own":   testANewDiskIsRegisteredAboveTheOld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for Leases to run out, each in a namespace of its own
			test(newWorld(t, config))
		})
	}
}

func newWorld(t *testing.T, config *rest.Config) *world {
	t.Helper()
	namespace, err := envtest.Namespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	all, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, config, all, namespace}
	w.make(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3}})
	return w
}

func (w *world) make(object client.Object) {
	w.t.Helper()
	object.SetNamespace(w.namespace)
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name},
		into); err != nil {
		w.t.Fatal(err)
	}
}

// topic makes a Topic and its Partitions, as the operator does.
func (w *world) topic(name string, partitions int32) {
	w.t.Helper()
	w.make(&v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TopicSpec{Cluster: "demo", Partitions: partitions}})
	for index := range partitions {
		w.make(&v1alpha1.Partition{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PartitionName(name, index),
				Labels: map[string]string{v1alpha1.LabelCluster: "demo"}},
			Spec: v1alpha1.PartitionSpec{Cluster: "demo", Topic: name, Index: index,
				Replicas: []int32{0}},
		})
	}
}

// elect does the operator's part, once the incarnation has registered.
func (w *world) elect(partition string, leader, leaderEpoch int32, brokerEpoch int64) {
	w.t.Helper()
	eventually(w.t, "the broker is registered", func() bool {
		current := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: w.namespace,
			Name: v1alpha1.BrokerLeaseName("demo", leader)}
		return w.client.Get(w.t.Context(), key, current) == nil && lease.Epoch(current) >= brokerEpoch
	})
	w.lead(partition, leader, leaderEpoch, brokerEpoch)
}

// lead writes who leads into a Partition.
func (w *world) lead(partition string, leader, leaderEpoch int32, brokerEpoch int64) {
	w.t.Helper()
	p := &v1alpha1.Partition{}
	w.get(partition, p)
	p.Status.Leader, p.Status.LeaderEpoch = leader, leaderEpoch
	p.Status.ISR = []v1alpha1.InSyncReplica{{Broker: leader, BrokerEpoch: brokerEpoch}}
	if err := w.client.Status().Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// broker is a running Store and what it was given to apply.
type broker struct {
	*Store
	t      *testing.T
	images chan *metadata.Image
	last   *metadata.Image
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// run starts broker id and waits for nothing.
func (w *world) run(id int32, config *rest.Config) *broker {
	w.t.Helper()
	return w.runAs(metadata.Broker{
		ID: id, Endpoints: metadata.Endpoints(fmt.Sprintf("kafka://demo-broker-%d:9092", id)),
		Directory: fmt.Sprintf("disk-%d", id), CleanEpoch: -1,
		Peer: fmt.Sprintf("10.0.0.%d:9092", id),
	}, config)
}

// runAs is run of a broker that registers so.
func (w *world) runAs(self metadata.Broker, config *rest.Config) *broker {
	w.t.Helper()
	store, err := New(Options{Config: config, Namespace: w.namespace, Cluster: "demo",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{Store: store, t: w.t, images: make(chan *metadata.Image, 10000), cancel: cancel,
		ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		b.err = store.Run(ctx, self, func(image *metadata.Image) { b.images <- image })
	}()
	w.t.Cleanup(func() { b.stop() })
	return b
}

func (b *broker) stop() {
	b.cancel()
	<-b.ended
}

// until takes images until one is as wanted.
func (b *broker) until(what string, wanted func(*metadata.Image) bool) *metadata.Image {
	b.t.Helper()
	expired := time.After(time.Minute)
	for {
		if b.last != nil && wanted(b.last) {
			return b.last
		}
		select {
		case b.last = <-b.images:
		case <-b.ended:
			b.t.Fatalf("ended while waiting until %s: %v", what, b.err)
		case <-expired:
			b.t.Fatalf("no image in which %s", what)
		}
	}
}

func leads(topic string, leader, epoch int32) func(*metadata.Image) bool {
	return func(image *metadata.Image) bool {
		found := image.Topic(topic)
		return found != nil && found.Partitions[0].Leader == leader &&
			found.Partitions[0].LeaderEpoch == epoch
	}
}

func up(ids ...int32) func(*metadata.Image) bool {
	return func(image *metadata.Image) bool {
		var all []int32
		for _, b := range image.Brokers {
			all = append(all, b.ID)
		}
		return slices.Equal(all, ids)
	}
}

func testResourcesBecomeImages(w *world) {
	w.topic("orders", 2)
	b := w.run(0, w.config)
	first := b.until("the topic is there",
		func(image *metadata.Image) bool { return image.Topic("orders") != nil })
	topic := &v1alpha1.Topic{}
	w.get("orders", topic)
	if want, _ := id(topic.UID); first.Topic("orders").ID != want ||
		len(first.Topic("orders").Partitions) != 2 {
		w.t.Errorf("topic is %+v, want id %s", first.Topic("orders"), want)
	}
	if self, _ := first.Broker(0); self.Epoch != 1 || self.Directory != "disk-0" {
		w.t.Errorf("this broker is %+v", self)
	}
	w.elect("orders-0", 0, 1, 1)
	b.until("the broker leads", leads("orders", 0, 1))
	topic.Spec.CleanupPolicy = v1alpha1.CleanupCompact
	if err := w.client.Update(w.t.Context(), topic); err != nil {
		w.t.Fatal(err)
	}
	b.until("the topic is compacted",
		func(image *metadata.Image) bool { return image.Topic("orders").Settings.Compact })
	if err := w.client.Delete(w.t.Context(), topic); err != nil {
		w.t.Fatal(err)
	}
	b.until("the topic is gone",
		func(image *metadata.Image) bool { return image.Topic("orders") == nil })
	b.stop()
	if b.err != nil {
		w.t.Errorf("stopped with %v", b.err)
	}
	again := w.run(0, w.config)
	if self, _ := again.until("it is up again", up(0)).Broker(0); self.Epoch != 2 {
		w.t.Errorf("its second incarnation has epoch %d", self.Epoch)
	}
}

func testServing(w *world) {
	w.topic("orders", 3)
	b := w.run(0, w.config)
	for index := range int32(3) {
		w.elect(v1alpha1.PartitionName("orders", index), 0, 4, 1)
	}
	image := b.until("all are led", func(image *metadata.Image) bool {
		topic := image.Topic("orders")
		return topic != nil &&
			!slices.ContainsFunc(topic.Partitions,
				func(p *metadata.Partition) bool { return p.Leader != 0 })
	})
	served := []metadata.Served{{Topic: image.Topic("orders").ID, Partition: 0, LeaderEpoch: 4},
		{Topic: image.Topic("orders").ID, Partition: 1, LeaderEpoch: 4},
		{Topic: image.Topic("orders").ID, Partition: 2, LeaderEpoch: 3},
		{Topic: metadata.ID{1}, Partition: 0, LeaderEpoch: 1}}
	if err := b.ReportServing(w.t.Context(), 0, served); err != nil {
		w.t.Fatal(err)
	}
	var versions []string
	for index := range int32(3) {
		p := &v1alpha1.Partition{}
		w.get(v1alpha1.PartitionName("orders", index), p)
		versions = append(versions, p.ResourceVersion)
		switch serving := p.Status.ServingEpoch; {
		case index < 2 && (serving == nil || *serving != 4):
			w.t.Errorf("partition %d: servingEpoch is %v", index, serving)
		case index == 2 && serving != nil:
			w.t.Errorf(
				"partition 2 is said to be served at epoch %d, the broker has not got so far",
				*serving,
			)
		}
	}
	if err := b.ReportServing(w.t.Context(), 0, served); err != nil {
		w.t.Fatal(err)
	}
	for index := range int32(3) {
		p := &v1alpha1.Partition{}
		w.get(v1alpha1.PartitionName("orders", index), p)
		if p.ResourceVersion != versions[index] {
			w.t.Errorf("partition %d was written again with nothing new", index)
		}
	}
	if err := b.ReportServing(w.t.Context(), 1, nil); err == nil {
		w.t.Error("another broker's serving was taken")
	}
}

func testBrokersSeeEachOther(w *world) {
	b0, b1 := w.run(0, w.config), w.run(1, w.config)
	b0.until("both are up", up(0, 1))
	image := b1.until("both are up", up(0, 1))
	if other, _ := image.Broker(0); other.Endpoints != "kafka://demo-broker-0:9092" ||
		other.Directory != "disk-0" || other.Epoch != 1 ||
		other.Peer != "10.0.0.0:9092" {
		w.t.Errorf("broker 1 sees broker 0 as %+v", other)
	}
	b1.stop()
	lease := &coordinationv1.Lease{}
	w.get("demo-broker-1", lease)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" ||
		lease.Spec.RenewTime == nil || *lease.Spec.LeaseTransitions != 1 {
		w.t.Errorf("after an orderly stop the lease is %+v", lease.Spec)
	}
	b0.until("broker 1 is gone", up(0))
}

func testTopicsThroughKafka(w *world) {
	b := w.run(0, w.config)
	b.until("it is up", up(0))
	ask := metadata.NewTopic{Name: "My_Orders", Partitions: 2, Replicas: -1,
		Properties: map[string]string{"cleanup.policy": "compact"}, Validate: true}
	checked, err := b.CreateTopic(w.t.Context(), ask)
	if err != nil || checked.ID != (metadata.ID{}) || len(checked.Partitions) != 2 {
		w.t.Errorf("checked: %+v, %v", checked, err)
	}
	resource := &v1alpha1.Topic{}
	name := metadata.ResourceName("My_Orders")
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name},
		resource); !apierrors.IsNotFound(err) {
		w.t.Errorf("a check made a resource: %v", err)
	}
	ask.Validate = false
	made, err := b.CreateTopic(w.t.Context(), ask)
	if err != nil {
		w.t.Fatal(err)
	}
	w.get(name, resource)
	if want, _ := id(resource.UID); made.ID != want || !made.Settings.Compact || made.RetainData ||
		len(made.Partitions[0].Replicas) != 1 {
		w.t.Errorf("topic is %+v, want id %s", made, want)
	}
	if resource.Labels[v1alpha1.LabelCluster] != "demo" || resource.Spec.TopicName != "My_Orders" ||
		resource.Spec.ReclaimPolicy != v1alpha1.ReclaimDelete {
		w.t.Errorf("resource is %+v", resource)
	}
	if _, err := b.CreateTopic(w.t.Context(), ask); !errors.Is(err, metadata.ErrTopicExists) {
		w.t.Errorf("a second time: %v", err)
	}
	wide := metadata.NewTopic{Name: "wide", Partitions: 1, Replicas: 4}
	if _, err := b.CreateTopic(w.t.Context(), wide); !errors.Is(err,
		metadata.ErrInvalidReplication) {
		w.t.Errorf("4 replicas on 3 brokers: %v", err)
	}
	// What our own checks let through, the API server's rules do not.
	ask.Name, ask.Properties = "zero", map[string]string{"max.message.bytes": "0"}
	if _, err := b.CreateTopic(w.t.Context(), ask); !errors.Is(err, metadata.ErrInvalidSettings) ||
		!strings.Contains(err.Error(), "spec.maxMessageSize") {
		w.t.Errorf("what the CRD refuses: %v", err)
	}
	if err := b.DeleteTopic(w.t.Context(), "My_Orders"); err != nil {
		w.t.Error(err)
	}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(resource),
		resource); !apierrors.IsNotFound(err) {
		w.t.Errorf("the resource is still there: %v", err)
	}
	for _, name := range []string{"My_Orders", "never", "not a name"} {
		if err := b.DeleteTopic(w.t.Context(), name); !errors.Is(err, metadata.ErrTopicNotFound) {
			w.t.Errorf("delete of %q: %v", name, err)
		}
	}
}

func testReplaced(w *world) {
	old := w.run(0, w.config)
	old.until("it is up", up(0))
	w.run(0, w.config).until("the second is up", up(0))
	<-old.ended
	if !errors.Is(old.err, errReplaced) {
		w.t.Errorf("the first incarnation ended with %v", old.err)
	}
	lease := &coordinationv1.Lease{}
	w.get("demo-broker-0", lease)
	if *lease.Spec.HolderIdentity == "" || *lease.Spec.LeaseTransitions != 2 {
		w.t.Errorf("the lease of the second is %+v", lease.Spec)
	}
}

func testDeletedLease(w *world) {
	b := w.run(0, w.config)
	b.until("it is up", up(0))
	lease := &coordinationv1.Lease{}
	w.get("demo-broker-0", lease)
	if err := w.client.Delete(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the lease is back", func() bool {
		again := &coordinationv1.Lease{}
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(lease), again)
		return err == nil && *again.Spec.HolderIdentity == *lease.Spec.HolderIdentity &&
			*again.Spec.LeaseTransitions == 1
	})
}

// testOutage cuts broker 0 off, for longer than a Lease lasts. It keeps its last image; the other
// sees it go and come back.
func testOutage(w *world) {
	var away atomic.Bool
	cut := rest.CopyConfig(w.config)
	cut.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, errors.New("the API server is away")
			}
			return next.RoundTrip(request)
		})
	})
	w.topic("orders", 1)
	b0, b1 := w.run(0, cut), w.run(1, w.config)
	w.elect("orders-0", 0, 1, 1)
	b0.until("it leads", leads("orders", 0, 1))
	b0.until("both are up", up(0, 1))
	b1.until("both are up", up(0, 1))
	away.Store(true)
	b1.until("broker 0 is gone", up(1))
	for len(b0.images) > 0 {
		b0.last = <-b0.images
	}
	if !leads("orders", 0, 1)(b0.last) || !up(0, 1)(b0.last) {
		w.t.Errorf("cut off, broker 0 holds %s", describe(b0.last))
	}
	away.Store(false)
	b1.until("broker 0 is back", up(0, 1))
	w.elect("orders-0", 0, 2, 1)
	b0.until("it is elected again", leads("orders", 0, 2))
	select {
	case <-b0.ended:
		w.t.Errorf("broker 0 ended: %v", b0.err)
	default:
	}
}

func testWaitsForTheCluster(w *world) {
	cluster := &v1alpha1.LogCluster{}
	w.get("demo", cluster)
	if err := w.client.Delete(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
	b := w.run(0, w.config)
	eventually(w.t, "the broker is registered", func() bool { return b.self.Load() != nil })
	if len(b.images) > 0 {
		w.t.Error("an image came without a LogCluster")
	}
	w.make(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}})
	b.until("it is up", up(0))
}

// testRole runs a broker as somebody who may do what doc.go says, and no more.
func testRole(w *world) {
	group := []string{v1alpha1.GroupVersion.Group}
	w.make(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "broker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"logclusters", "topics", "partitions"},
			Verbs: []string{"get", "list", "watch"}},
		{APIGroups: group, Resources: []string{"topics"}, Verbs: []string{"create", "delete"}},
		{APIGroups: group, Resources: []string{"partitions/status"},
			Verbs: []string{"get", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", "create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{"demo-broker-0"}, Verbs: []string{"update"}},
	}})
	w.make(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "broker"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "broker"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName,
			Name: w.namespace}},
	})
	limited := rest.CopyConfig(w.config)
	limited.Impersonate.UserName = w.namespace
	w.topic("orders", 1)
	b := w.run(0, limited)
	b.until("it is up", up(0))
	w.elect("orders-0", 0, 1, 1)
	image := b.until("it leads", leads("orders", 0, 1))
	if err := b.ReportServing(w.t.Context(), 0,
		[]metadata.Served{{Topic: image.Topic("orders").ID, LeaderEpoch: 1}}); err != nil {
		w.t.Error(err)
	}
	if _, err := b.CreateTopic(w.t.Context(),
		metadata.NewTopic{Name: "made", Partitions: 1, Replicas: 1}); err != nil {
		w.t.Error(err)
	}
	if err := b.DeleteTopic(w.t.Context(), "made"); err != nil {
		w.t.Error(err)
	}
	renewed := &coordinationv1.Lease{}
	w.get("demo-broker-0", renewed)
	first := renewed.Spec.RenewTime.Time
	eventually(w.t, "the lease is renewed", func() bool {
		w.get("demo-broker-0", renewed)
		return renewed.Spec.RenewTime.After(first)
	})
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for again := time.NewTicker(50 * time.Millisecond); ; {
		if happened() {
			again.Stop()
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("it never happened that %s", what)
		}
	}
}
