package handler

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
)

const self = 1

// broker is a Handler with real replicas and logs on an in-memory disk. The fake metadata store
// accepts every valid change.
type broker struct {
	*Handler
	t        *testing.T
	options  Options
	disk     *vfs.Fault
	store    *logstore.Store
	set      *replica.Set
	groups   *coordinator.Groups
	txns     *coordinator.Transactions
	image    atomic.Pointer[metadata.Image]
	topics   []*metadata.Topic
	producer int64
	// transactional counts the producer ids given to transactional producers.
	transactional atomic.Int64
	// later contains image changes that take effect when a request waits. While lazy is false, changes
	// take effect immediately instead.
	later   []func()
	lazy    bool
	policy  metadata.AdminPolicy // overrides the policy in cluster
	bounds  metadata.Groups      // settings of groups, which override those in cluster
	cluster *v1alpha1.LogCluster // optional; admin requests change it
	// specs contains the topic settings set by admin requests, by topic name.
	specs    map[string]v1alpha1.TopicSettings
	listener string // listener of requests; "": metadata.DefaultListener
	client   string // client id of requests
	number   uint64 // number of the requests' connection
}

func newBroker(t testing.TB) *broker { return newBrokerOn(t, vfs.NewMem()) }

func newBrokerOn(t testing.TB, disk vfs.FS) *broker { return newBrokerWith(t, disk, nil) }

// newBrokerWith returns a broker that uses verifier to verify transactions. If verifier is nil, the
// broker uses its own transaction coordinator.
func newBrokerWith(t testing.TB, disk vfs.FS, verifier replica.Verifier) *broker {
	b := &broker{disk: vfs.NewFault(disk), specs: map[string]v1alpha1.TopicSettings{}}
	b.t, _ = t.(*testing.T)
	must(t, b.disk.MkdirAll("/data"))
	store, err := logstore.Open(logstore.Options{FS: b.disk, Dir: "/data"})
	must(t, err)
	if verifier == nil {
		verifier = ownVerifier{b}
	}
	b.store, b.set = store, replica.NewSet(replica.Options{NodeID: self, Store: store,
		Verifier: verifier})
	b.txns = b.newTransactions()
	b.groups = coordinator.NewGroups(coordinator.Options{
		NodeID: self, Replicas: b.set, Image: b.image.Load, Await: b.await, Admin: b,
		Config: group.Config{InitialDelay: -1},
	})
	t.Cleanup(func() {
		b.txns.Close()
		b.groups.Close()
		b.set.Close()
		_ = store.Close() // fails in tests that inject disk errors
	})
	b.options = Options{
		NodeID: self, Image: b.image.Load, Await: b.await, Replicas: b.set, Groups: b.groups,
		Transactions: b.txns, Admin: b, Alterer: b, Mover: b, DataDir: "/data",
		ProducerID: func() (int64, error) { b.producer++; return b.producer, nil },
	}
	b.configure(func(*Options) {})
	must(t, b.apply())
	return b
}

// configure replaces the Handler by a Handler with changed options.
func (b *broker) configure(change func(*Options)) {
	change(&b.options)
	b.Handler = New(b.options)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies a metadata image that contains b.topics.
func (b *broker) apply() error {
	brokers := []metadata.Broker{{ID: self,
		Endpoints: "kafka://one.example:9092,out://one.public:19092", Rack: "a"},
		{ID: 3, Endpoints: "kafka://three.example:9093"}}
	img := metadata.NewImage("cluster-1", metadata.CleanerBudget{}, brokers, slices.Clone(b.topics))
	img.WithPolicies(b.cluster)
	if b.policy != (metadata.AdminPolicy{}) {
		img.Policy = b.policy
	}
	if b.bounds != (metadata.Groups{}) {
		img.Groups = b.bounds
	}
	_, err := b.set.Apply(img)
	b.groups.Apply(img)
	b.txns.Apply(img)
	b.image.Store(img)
	return err
}

// topic creates a topic with one partition, which this broker leads in epoch 2.
func (b *broker) topic(name string, change func(*metadata.Topic)) *metadata.Topic {
	topic := &metadata.Topic{Name: name, ID: metadata.NewID(), Settings: topicconfig.Default(),
		Internal: metadata.InternalTopic(name)}
	topic.Partitions = []*metadata.Partition{{Replicas: []int32{self}, Leader: self, LeaderEpoch: 2,
		ISR: []int32{self}}}
	if change != nil {
		change(topic)
	}
	for _, p := range topic.Settings.Properties() {
		if !p.Default {
			topic.Own = append(topic.Own, p.Name)
		}
	}
	b.topics = append(b.topics, topic)
	if err := b.apply(); err != nil && b.t != nil {
		b.t.Fatal(err)
	}
	return topic
}

// await applies the changes in b.later one by one until enough returns true for the metadata image.
func (b *broker) await(ctx context.Context, enough func(*metadata.Image) bool) {
	for !enough(b.image.Load()) && ctx.Err() == nil && len(b.later) > 0 {
		next := b.later[0]
		b.later = b.later[1:]
		next()
	}
}

// CreateTopic implements metadata.Admin with the rules of the real stores.
func (b *broker) CreateTopic(_ context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	if b.image.Load().Topic(t.Name) != nil {
		return nil, metadata.ErrTopicExists
	}
	if err := metadata.CheckAssignment(t.Assignment, 0, int(t.Replicas), b.states()); err != nil {
		return nil, err
	}
	resource, err := metadata.TopicResource(metadata.WithInternalDefaults(t, 1, b.cluster), "test",
		b.cluster)
	if err != nil {
		return nil, err
	}
	topic, err := metadata.ResolveTopic(resource, nil)
	if err != nil {
		return nil, err
	}
	topic.Partitions = b.grown(topic, resource)
	if t.Validate {
		return topic, nil
	}
	topic.ID = metadata.NewID()
	b.specs[t.Name] = resource.Spec.TopicSettings
	b.topics = append(b.topics, topic)
	return topic, b.changed()
}

// states returns the brokers in the metadata image. Broker 4 exists but is down.
func (b *broker) states() metadata.Brokers {
	up := func(id int32) bool { _, ok := b.image.Load().Broker(id); return ok }
	return metadata.Brokers{Up: up, Exists: func(id int32) bool { return id == 4 || up(id) }}
}

// grown returns a topic's partitions, followed by the partitions that a resource adds. The replicas
// of an added partition are those assigned in the resource, or this broker.
func (b *broker) grown(topic *metadata.Topic, resource *v1alpha1.Topic) []*metadata.Partition {
	partitions := slices.Clip(topic.Partitions)
	for i := int32(len(partitions)); i < resource.Spec.Partitions; i++ {
		added := &metadata.Partition{Index: i, Replicas: []int32{self}, Leader: self,
			ISR: []int32{self}}
		for _, initial := range resource.Spec.InitialReplicas {
			if initial.Partition == i {
				added.Replicas = initial.Replicas
			}
		}
		partitions = append(partitions, added)
	}
	return partitions
}

// DeleteTopic implements metadata.Admin.
func (b *broker) DeleteTopic(_ context.Context, name string) error {
	if b.image.Load().Topic(name) == nil {
		return metadata.ErrTopicNotFound
	}
	b.topics = slices.DeleteFunc(b.topics, func(t *metadata.Topic) bool { return t.Name == name })
	return b.changed()
}

// replace replaces a topic with a changed copy.
func (b *broker) replace(name string, change func(*metadata.Topic) error) error {
	index := slices.IndexFunc(b.topics, func(t *metadata.Topic) bool { return t.Name == name })
	if index < 0 {
		return metadata.ErrTopicNotFound
	}
	topic := *b.topics[index]
	if err := change(&topic); err != nil {
		return err
	}
	b.topics[index] = &topic
	return b.changed()
}

// AlterTopic implements metadata.Alterer with the rules of the real stores.
func (b *broker) AlterTopic(_ context.Context, change metadata.TopicChange) error {
	return b.replace(change.Name, func(topic *metadata.Topic) error {
		resource := &v1alpha1.Topic{}
		resource.Spec.TopicSettings = metadata.ResourceSettings(topic.Settings)
		if written, ok := b.specs[topic.Name]; ok {
			resource.Spec.TopicSettings = written
		}
		altered, err := metadata.AlteredTopic(resource, change, nil)
		if err != nil || change.Validate {
			return err
		}
		resolved, err := metadata.ResolveTopic(altered, nil)
		if err != nil {
			return err
		}
		b.specs[topic.Name] = altered.Spec.TopicSettings
		topic.Settings, topic.Own = resolved.Settings, resolved.Own
		return nil
	})
}

// AlterCluster implements metadata.Alterer with the rules of the real stores.
func (b *broker) AlterCluster(_ context.Context, change metadata.ClusterChange) error {
	cluster := b.cluster
	if cluster == nil {
		cluster = &v1alpha1.LogCluster{}
	}
	altered, err := metadata.AlteredCluster(cluster, change)
	if err != nil || change.Validate {
		return err
	}
	b.cluster = altered
	return b.changed()
}

// CreatePartitions implements metadata.Alterer.
func (b *broker) CreatePartitions(_ context.Context, more metadata.NewPartitions) error {
	return b.replace(more.Name, func(topic *metadata.Topic) error {
		resource, err := metadata.GrownTopic(&v1alpha1.Topic{
			Spec: v1alpha1.TopicSpec{Partitions: int32(len(topic.Partitions))},
		}, more, b.cluster, b.states())
		if err != nil || more.Validate {
			return err
		}
		topic.Partitions = b.grown(topic, resource)
		return nil
	})
}

// ElectPreferred implements metadata.Mover.
func (b *broker) ElectPreferred(_ context.Context, partitions []metadata.PartitionRef) []error {
	faults := make([]error, len(partitions))
	for i, ref := range partitions {
		_, p, err := b.image.Load().Partition(ref)
		if err == nil {
			err = metadata.CheckPreferred(b.image.Load(), p)
		}
		if faults[i] = err; err == nil {
			faults[i] = b.replace(ref.Topic, func(topic *metadata.Topic) error {
				topic.Partitions = slices.Clone(topic.Partitions)
				led := *topic.Partitions[ref.Partition]
				led.Leader, led.LeaderEpoch = led.Replicas[0], led.LeaderEpoch+1
				topic.Partitions[ref.Partition] = &led
				return nil
			})
		}
	}
	return faults
}

// changed applies an image with the changed topics. If b.lazy is set, it delays this until a
// request waits for the image.
func (b *broker) changed() error {
	if b.lazy {
		b.later = append(b.later, func() { _ = b.apply() })
		return nil
	}
	return b.apply()
}

// ask encodes a request in the given version, handles it and returns the decoded response. After
// the request's memory is released, it is overwritten, as the next request in the same buffer would
// do.
func ask[R kmsg.Response](b *broker, version int16, request kmsg.Request) R {
	b.t.Helper()
	request.SetVersion(version)
	b.nameByID(request)
	body := request.AppendTo(nil)
	raw := &wire.Request{Key: request.Key(), Version: version, Body: body,
		Listener: cmp.Or(b.listener, metadata.DefaultListener),
		ClientID: b.client, Connection: b.number,
		Release: func() {
			for i := range body {
				body[i] = 0xaa
			}
		}}
	answer, err := b.Handle(b.t.Context(), raw)
	must(b.t, err)
	response := decodeReply[R](b.t, request, answer)
	raw.ReleaseBody()
	return response
}

// nameByID sets the topic ids in a Fetch or Produce request from the topic names. Versions 13 and
// above use ids.
func (b *broker) nameByID(request kmsg.Request) {
	idOf := func(name string) (id [16]byte) {
		if topic := b.image.Load().Topic(name); topic != nil {
			id = topic.ID
		}
		return id
	}
	switch req := request.(type) {
	case *kmsg.FetchRequest:
		for i := range req.Topics {
			req.Topics[i].TopicID = idOf(req.Topics[i].Topic)
		}
	case *kmsg.ProduceRequest:
		for i := range req.Topics {
			req.Topics[i].TopicID = idOf(req.Topics[i].Topic)
		}
	}
}

func decodeReply[R kmsg.Response](t *testing.T, request kmsg.Request, answer wire.Reply) R {
	t.Helper()
	body := replyBytes(t, answer)
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	must(t, response.ReadFrom(body))
	if want := response.IsFlexible() && request.Key() != api.KeyAPIVersions; answer.Flexible != want {
		t.Errorf("%s version %d: flexible header %v, want %v", APIName(request.Key()),
			request.GetVersion(), answer.Flexible, want)
	}
	// Encoding the decoded response must result in the same bytes.
	if again := response.AppendTo(nil); !bytes.Equal(again, body) {
		t.Errorf("%s version %d: answer of %d bytes decodes to %d", APIName(request.Key()),
			request.GetVersion(), len(body), len(again))
	}
	return response.(R)
}

// replyBytes returns the bytes that package wire would send for a reply.
func replyBytes(t testing.TB, answer wire.Reply) []byte {
	t.Helper()
	var body []byte
	for _, chunk := range answer.Chunks {
		if chunk.File == nil {
			body = append(body, chunk.Bytes...)
			continue
		}
		data := make([]byte, chunk.Length)
		if _, err := io.ReadFull(io.NewSectionReader(chunk.File, chunk.Position,
			int64(chunk.Length)), data); err != nil {
			t.Fatal(err)
		}
		body = append(body, data...)
	}
	if answer.Release != nil {
		answer.Release()
	}
	return body
}

// batch returns a record batch without a producer id.
func batch(t testing.TB, codec compress.Codec, values ...string) []byte {
	t.Helper()
	return batchOf(t, codec, record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		values...)
}

func batchOf(t testing.TB, codec compress.Codec, id record.Identity, values ...string) []byte {
	t.Helper()
	id.LastOffsetDelta, id.LeaderEpoch = int32(len(values)-1), -1
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(id)
	for i, value := range values {
		builder.Add(&record.Record{Offset: int64(i), Timestamp: time.Now().UnixMilli(),
			Value: []byte(value)})
	}
	built, err := builder.Build(nil)
	must(t, err)
	return built
}

func produceRequestFor(topic string, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	asked := kmsg.NewProduceRequestTopic()
	asked.Topic = topic
	for i, records := range batches {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = int32(i), records
		asked.Partitions = append(asked.Partitions, part)
	}
	req.Topics = append(req.Topics, asked)
	return req
}

// produce sends a batch to partition 0 of a topic, and returns the response for the partition.
func (b *broker) produce(version int16, topic string,
	records []byte) kmsg.ProduceResponseTopicPartition {
	b.t.Helper()
	response := ask[*kmsg.ProduceResponse](b, version, produceRequestFor(topic, -1, records))
	return response.Topics[0].Partitions[0]
}

func (b *broker) mustProduce(topic string, values ...string) {
	b.t.Helper()
	if answer := b.produce(9, topic, batch(b.t, compress.None, values...)); answer.ErrorCode != 0 {
		b.t.Fatalf("produce: error %d", answer.ErrorCode)
	}
}

func fetchRequestFor(topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MinBytes, req.MaxBytes = -1, -1, 1, 1<<20
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic = topic
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = offset, 1<<20, -1
	asked.Partitions = append(asked.Partitions, part)
	req.Topics = append(req.Topics, asked)
	return req
}

// fetch fetches partition 0 of a topic, starting at an offset, and returns the response for that
// partition.
func (b *broker) fetch(version int16, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	b.t.Helper()
	response := ask[*kmsg.FetchResponse](b, version, fetchRequestFor(topic, offset))
	return response.Topics[0].Partitions[0]
}

// values returns the values of all records in fetched batches.
func values(t *testing.T, fetched []byte) []string {
	t.Helper()
	var all []string
	for len(fetched) > 0 {
		first, rest, err := record.Next(fetched)
		must(t, err)
		must(t, first.Records(1<<20,
			func(r *record.Record) error { all = append(all, string(r.Value)); return nil }))
		fetched = rest
	}
	return all
}
