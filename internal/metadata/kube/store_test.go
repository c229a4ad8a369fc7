package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/envtest"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// fixture consists of a namespace of a real API server, which contains the LogCluster demo, and of
// a client with all permissions.
type fixture struct {
	t         *testing.T
	config    *rest.Config
	client    client.Client
	namespace string
}

func TestWithAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("make test sets KUBEBUILDER_ASSETS")
	}
	config := envtest.Start(t)
	t.Run("conformance", func(t *testing.T) { testConformance(t, config) })
	for name, test := range map[string]func(*fixture){
		"image follows resources":               testImageFollowsResources,
		"serving is reported":                   testServing,
		"brokers observe each other":            testBrokersObserveEachOther,
		"create and delete topics":              testCreateAndDeleteTopics,
		"names of another cluster":              testNamesOfAnotherCluster,
		"alter topics":                          testAlterTopics,
		"internal topics keep their records":    testInternalTopics,
		"alter the LogCluster":                  testAlterCluster,
		"alter configs of groups":               testAlterGroups,
		"policy about LogClusters":              testPolicy,
		"reassign and elect":                    testReassignAndElect,
		"reassign changes replicas":             testReassignChangesReplicas,
		"replaced incarnation stops":            testReplaced,
		"API server unavailable":                testOutage,
		"deleted Lease":                         testDeletedLease,
		"wait for the LogCluster":               testWaitForTheCluster,
		"permissions":                           testPermissions,
		"users and their passwords":             testUsers,
		"Role without Secrets":                  testRoleWithoutSecrets,
		"Role without the next shard":           testRoleWithoutNextShard,
		"foreign Secret with passwords":         testForeignSecret,
		"first image waits for passwords":       testFirstImageWaitsForPasswords,
		"passwords of admin clients":            testAdminPasswordsBeforeLogUsers,
		"conflict with the operator":            testServingConflict,
		"log ahead of the metadata":             testAhead,
		"lost log of a leader":                  testLostLog,
		"lost log of the last in-sync replica":  testLastLostLog,
		"failed log":                            testStopped,
		"re-created Topic":                      testRecreatedTopic,
		"LogCluster owns Leases":                testLeaseOwner,
		"re-created LogCluster":                 testRecreatedCluster,
		"change the ISR":                        testChangeISR,
		"ISR changes share writes":              testISRChangesShareWrites,
		"moves share writes":                    testMovesShareWrites,
		"late writes":                           testLateWrites,
		"repeated writes":                       testRepeatedWrites,
		"concurrent writers":                    testConcurrentWriters,
		"rejected writes":                       testRejectedWrites,
		"manual assignment":                     testAssignment,
		"default number of partitions":          testDefaultPartitions,
		"announced shutdown":                    testAnnounceShutdown,
		"outage is reported":                    testOutageIsReported,
		"lost response":                         testLostResponse,
		"broker epochs outlive the Lease":       testEpochsOutliveTheLease,
		"producer ids after a disk replacement": testProducerIDsAfterADiskReplacement,
		"new volume":                            testNewVolume,
		"removal of retained records":           testRemoval,
	} {
		t.Run(name, func(t *testing.T) {
			// Tests run in parallel, because each waits for renewals of Leases. Each has its own namespace.
			t.Parallel()
			test(newFixture(t, config))
		})
	}
}

func newFixture(t *testing.T, config *rest.Config) *fixture {
	t.Helper()
	namespace, err := envtest.Namespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	scheme := fakeapi.Scheme(t)
	all, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t, config, all, namespace}
	f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3}})
	for _, set := range emptySets("demo") {
		f.create(set)
	}
	return f
}

func (f *fixture) create(object client.Object) {
	f.t.Helper()
	object.SetNamespace(f.namespace)
	if err := f.client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string, into client.Object) {
	f.t.Helper()
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name},
		into); err != nil {
		f.t.Fatal(err)
	}
}

// topic creates a Topic and assigns its partitions to broker 0, as the operator would.
func (f *fixture) topic(name string, partitions int32) {
	f.t.Helper()
	f.create(&v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TopicSpec{Cluster: "demo", Partitions: partitions}})
	for index := range partitions {
		f.assign(partitionset.Key{Topic: name, Index: index}, 0)
	}
}

// elect makes a broker the leader of a partition, as the operator would. It first waits until the
// broker has registered with brokerEpoch.
func (f *fixture) elect(key partitionset.Key, leader, leaderEpoch int32, brokerEpoch int64) {
	f.t.Helper()
	await.Until(f.t, "broker registered", func() bool {
		current := &coordinationv1.Lease{}
		name := client.ObjectKey{Namespace: f.namespace,
			Name: v1alpha1.BrokerLeaseName("demo", leader)}
		return f.client.Get(f.t.Context(), name, current) == nil &&
			lease.Epoch(current) >= brokerEpoch
	})
	f.lead(key, leader, leaderEpoch, brokerEpoch)
}

// broker is a running Store, together with the images that it has applied.
type broker struct {
	*Store
	t      *testing.T
	images chan *metadata.Image
	last   *metadata.Image
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// waitMax is the timeout for conditions that must become true. Even a slow machine needs less time.
const waitMax = await.Limit

// lasting contains times that are long enough even for a slow machine.
var lasting = times{lease: time.Hour, request: waitMax, changeISR: waitMax, serving: waitMax}

// run starts a broker without waiting until it is registered.
func (f *fixture) run(id int32, config *rest.Config) *broker {
	f.t.Helper()
	return f.runAs(registration(id), config)
}

// runExpiring starts a broker whose Lease has the same duration as in production.
func (f *fixture) runExpiring(id int32, config *rest.Config) *broker {
	f.t.Helper()
	expiring := lasting
	expiring.lease = lease.Duration
	return f.runWith(registration(id), Options{Config: config, times: expiring})
}

// registration returns the metadata with which a broker registers.
func registration(id int32) metadata.Broker {
	return metadata.Broker{
		ID: id, Endpoints: metadata.Endpoints(fmt.Sprintf("kafka://demo-broker-%d:9092", id)),
		Directory: fmt.Sprintf("disk-%d", id), CleanEpoch: -1,
		Peer: fmt.Sprintf("10.0.0.%d:9092", id),
	}
}

// runAs starts a broker that registers with the given metadata.
func (f *fixture) runAs(self metadata.Broker, config *rest.Config) *broker {
	f.t.Helper()
	return f.runWith(self, Options{Config: config})
}

// runWithPasswords starts a broker with a listener that authenticates clients by passwords.
func (f *fixture) runWithPasswords(id int32, config *rest.Config) *broker {
	f.t.Helper()
	return f.runWith(registration(id), Options{Config: config, Passwords: true})
}

// runWith starts a broker with the given options. If the options contain no times, it uses lasting.
func (f *fixture) runWith(self metadata.Broker, opts Options) *broker {
	f.t.Helper()
	opts.Namespace, opts.Cluster = f.namespace, "demo"
	if opts.times == (times{}) {
		opts.times = lasting
	}
	store, err := New(opts)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{Store: store, t: f.t, images: make(chan *metadata.Image, 10000), cancel: cancel,
		ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		b.err = store.Run(ctx, self, func(image *metadata.Image) { b.images <- image })
	}()
	f.t.Cleanup(func() { b.stop() })
	return b
}

func (b *broker) stop() {
	b.cancel()
	<-b.ended
}

// until waits for an image that satisfies a condition, and returns the image.
func (b *broker) until(what string, satisfied func(*metadata.Image) bool) *metadata.Image {
	b.t.Helper()
	expired := time.After(waitMax)
	for {
		if b.last != nil && satisfied(b.last) {
			return b.last
		}
		select {
		case b.last = <-b.images:
		case <-b.ended:
			b.t.Fatalf("the store stopped before condition %q: %v", what, b.err)
		case <-expired:
			b.t.Fatalf("no image within the timeout with condition %q", what)
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

func testImageFollowsResources(f *fixture) {
	f.topic("orders", 2)
	b := f.run(0, f.config)
	first := b.until("topic created",
		func(image *metadata.Image) bool { return image.Topic("orders") != nil })
	topic := &v1alpha1.Topic{}
	f.get("orders", topic)
	if want, _ := id(topic.UID); first.Topic("orders").ID != want ||
		len(first.Topic("orders").Partitions) != 2 {
		f.t.Errorf("got topic %+v, want id %s", first.Topic("orders"), want)
	}
	if self, _ := first.Broker(0); self.Epoch != 1 || self.Directory != "disk-0" {
		f.t.Errorf("got own broker %+v", self)
	}
	f.elect(orders(0), 0, 1, 1)
	b.until("broker leads", leads("orders", 0, 1))
	topic.Spec.CleanupPolicy = v1alpha1.CleanupCompact
	if err := f.client.Update(f.t.Context(), topic); err != nil {
		f.t.Fatal(err)
	}
	b.until("topic compacted",
		func(image *metadata.Image) bool { return image.Topic("orders").Settings.Compact })
	if err := f.client.Delete(f.t.Context(), topic); err != nil {
		f.t.Fatal(err)
	}
	b.until("topic deleted",
		func(image *metadata.Image) bool { return image.Topic("orders") == nil })
	b.stop()
	if b.err != nil {
		f.t.Errorf("Run returned %v", b.err)
	}
	again := f.run(0, f.config)
	if self, _ := again.until("up again", up(0)).Broker(0); self.Epoch != 2 {
		f.t.Errorf("the second incarnation has epoch %d, want 2", self.Epoch)
	}
}

func testServing(f *fixture) {
	f.topic("orders", 3)
	b := f.run(0, f.config)
	for index := range int32(3) {
		f.elect(orders(index), 0, 4, 1)
	}
	image := b.until("all partitions led", func(image *metadata.Image) bool {
		topic := image.Topic("orders")
		return topic != nil &&
			!slices.ContainsFunc(topic.Partitions,
				func(p *metadata.Partition) bool { return p.Leader != 0 })
	})
	served := []metadata.Served{{Topic: image.Topic("orders").ID, Partition: 0, LeaderEpoch: 4},
		{Topic: image.Topic("orders").ID, Partition: 1, LeaderEpoch: 4},
		{Topic: image.Topic("orders").ID, Partition: 2, LeaderEpoch: 3},
		{Topic: metadata.ID{1}, Partition: 0, LeaderEpoch: 1}}
	if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
		f.t.Fatal(err)
	}
	for index := range int32(3) {
		if got, want := f.state(orders(index)).Serving, index < 2; got != want {
			f.t.Errorf("partition %d: got serving %t, want %t; broker 0 has reached leader epoch 3 "+
				"of partition 2, and the epoch is 4", index, got, want)
		}
	}
	versions := f.versions()
	if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
		f.t.Fatal(err)
	}
	if again := f.versions(); !slices.Equal(versions, again) {
		f.t.Errorf("the sets were written again without a change: %v, then %v", versions, again)
	}
	if err := b.ReportServing(f.t.Context(), 1, nil); err == nil {
		f.t.Error("a report for another broker was accepted")
	}
}

// versions returns the resourceVersions of all sets.
func (f *fixture) versions() (all []string) {
	f.t.Helper()
	for index := range int32(testSets) {
		set := &v1alpha1.PartitionSet{}
		f.get(v1alpha1.PartitionSetName("demo", index), set)
		all = append(all, set.ResourceVersion)
	}
	return all
}

func testBrokersObserveEachOther(f *fixture) {
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b0.until("both up", up(0, 1))
	image := b1.until("both up", up(0, 1))
	if other, _ := image.Broker(0); other.Endpoints != "kafka://demo-broker-0:9092" ||
		other.Directory != "disk-0" || other.Epoch != 1 ||
		other.Peer != "10.0.0.0:9092" {
		f.t.Errorf("broker 1 observes broker 0 as %+v", other)
	}
	b1.stop()
	lease := &coordinationv1.Lease{}
	f.get("demo-broker-1", lease)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" ||
		lease.Spec.RenewTime == nil || *lease.Spec.LeaseTransitions != 1 {
		f.t.Errorf("after a graceful stop the lease is %+v", lease.Spec)
	}
	b0.until("broker 1 down", up(0))
}

func testReplaced(f *fixture) {
	old := f.run(0, f.config)
	old.until("up", up(0))
	f.run(0, f.config).until("second incarnation up", up(0))
	<-old.ended
	if !errors.Is(old.err, errReplaced) {
		f.t.Errorf("Run of the first incarnation returned %v, want errReplaced", old.err)
	}
	lease := &coordinationv1.Lease{}
	f.get("demo-broker-0", lease)
	if *lease.Spec.HolderIdentity == "" || *lease.Spec.LeaseTransitions != 2 {
		f.t.Errorf("the lease of the second incarnation is %+v", lease.Spec)
	}
}

func testDeletedLease(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	lease := &coordinationv1.Lease{}
	f.get("demo-broker-0", lease)
	if err := f.client.Delete(f.t.Context(), lease); err != nil {
		f.t.Fatal(err)
	}
	await.Until(f.t, "lease created again", func() bool {
		again := &coordinationv1.Lease{}
		err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(lease), again)
		return err == nil && *again.Spec.HolderIdentity == *lease.Spec.HolderIdentity &&
			*again.Spec.LeaseTransitions == 1
	})
}

// interruptible returns a client configuration whose requests fail while unavailable is set.
func (f *fixture) interruptible() (config *rest.Config, unavailable *atomic.Bool) {
	unavailable = &atomic.Bool{}
	config = rest.CopyConfig(f.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			if unavailable.Load() {
				return nil, errors.New("API server unavailable")
			}
			return next.RoundTrip(request)
		})
	})
	return config, unavailable
}

// testOutage checks an outage of the API server for broker 0 that lasts longer than broker 0's
// Lease. Broker 0 must keep its last image, and broker 1 must observe broker 0 as down, and after
// the outage as up again. Broker 1's Lease does not expire, even on a slow machine.
func testOutage(f *fixture) {
	interrupted, unavailable := f.interruptible()
	f.topic("orders", 1)
	b0, b1 := f.runExpiring(0, interrupted), f.run(1, f.config)
	f.elect(orders(0), 0, 1, 1)
	b0.until("leads", leads("orders", 0, 1))
	b0.until("both up", up(0, 1))
	b1.until("both up", up(0, 1))
	unavailable.Store(true)
	b1.until("broker 0 down", up(1))
	for len(b0.images) > 0 {
		b0.last = <-b0.images
	}
	if !leads("orders", 0, 1)(b0.last) || !up(0, 1)(b0.last) {
		f.t.Errorf("the disconnected broker 0 has the image %s", describe(b0.last))
	}
	unavailable.Store(false)
	b1.until("broker 0 up again", up(0, 1))
	f.elect(orders(0), 0, 2, 1)
	b0.until("elected again", leads("orders", 0, 2))
	select {
	case <-b0.ended:
		f.t.Errorf("broker 0 stopped: %v", b0.err)
	default:
	}
}

func testWaitForTheCluster(f *fixture) {
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	if err := f.client.Delete(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
	b := f.run(0, f.config)
	await.Until(f.t, "broker registered", func() bool { return b.self.Load() != nil })
	if len(b.images) > 0 {
		f.t.Error("an image was applied without a LogCluster")
	}
	f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 1}})
	b.until("up", up(0))
}
