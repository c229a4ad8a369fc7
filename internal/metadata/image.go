package metadata

import (
	"cmp"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// NoBroker is the value of Leader for a partition without a leader.
const NoBroker int32 = -1

// Image is the metadata of a cluster at one moment. It is immutable: a change creates a new image.
type Image struct {
	ClusterID   string
	Cleaner     CleanerBudget
	Policy      AdminPolicy
	Replication Replication
	Groups      Groups
	Defaults    topicconfig.Settings // settings of a topic that sets none
	Brokers     []Broker             // brokers that are up, sorted by ID
	Topics      []*Topic             // sorted by Name

	byName map[string]*Topic
	byID   map[ID]*Topic
}

// Broker is a broker that is up.
type Broker struct {
	ID int32
	// Epoch is the broker epoch: it grows with each start.
	Epoch int64
	// Endpoints are where clients reach it, by listener.
	Endpoints Endpoints
	Rack      string
	// Peer is the host:port at which other brokers reach it; "": the endpoint of DefaultListener.
	// The address of a pod needs no DNS, and never belongs to an earlier pod.
	Peer string
	// Directory identifies the broker's disk. A broker with another directory has lost its logs.
	Directory string
	// CleanEpoch is the broker epoch whose clean shutdown left this disk as it is; -1: the last
	// shutdown was not clean, or the disk is new. The broker writes it to the data directory after
	// it has closed the last log, and removes it at startup before it writes anything else. So the
	// file proves that the disk holds every record that the broker held in that epoch (KIP-966).
	CleanEpoch int64
	// ProducerIDs is above the counters of all producer ids that brokers of this id have allocated.
	// A broker registers this bound for its disk, including the ids that it may allocate until it
	// registers again; the store keeps the highest bound (NextProducerIDs).
	ProducerIDs int64
	// ProducerIDsLost reports that the file of allocated producer ids was unusable when the broker
	// registered; NextProducerIDs treats the disk as a new one.
	ProducerIDsLost bool
	// Leaving reports that the broker is in controlled shutdown. It serves the partitions that it
	// leads until other brokers lead them, and must not be elected.
	Leaving bool
}

// CleanerBudget bounds the resources of a broker's cleaner.
type CleanerBudget struct {
	Workers     int // 0: the cleaner is disabled
	MemoryBytes int64
	IOBytesRate int64 // bytes a second; 0: unlimited
}

// Replication is the configuration of replication between brokers.
type Replication struct {
	// LagMax is how long an in-sync follower may be behind; 0: the broker's default.
	LagMax time.Duration
	// CatchUpBytesRate limits what each broker sends to replicas that are not in sync, in bytes a
	// second; 0: unlimited.
	CatchUpBytesRate int64
}

// Groups is the configuration of consumer groups. For a field that is 0 the broker uses Kafka's
// default.
type Groups struct {
	SessionMin, SessionMax time.Duration // bounds of the members' session timeouts
	// InitialDelay is how long an empty group waits for more members; negative: it does not wait.
	InitialDelay         time.Duration
	MembersMax           int
	OffsetsRetention     time.Duration // for topics without a subscribed member
	OffsetsCheckInterval time.Duration
	ConsumerSession      time.Duration // session timeout in the consumer protocol
	ConsumerInterval     time.Duration // heartbeat interval in the consumer protocol
	MetadataBytesMax     int           // metadata of one committed offset; negative: none allowed
	OffsetsPartitions    int32         // number of partitions when __consumer_offsets is created
	OffsetsReplicas      int32
}

// Topic is a topic and its partitions.
type Topic struct {
	Name       string
	ID         ID
	Settings   topicconfig.Settings
	Internal   bool         // written by brokers only; clients hide it by default
	RetainData bool         // reclaimPolicy Retain: the data stays when the topic is deleted
	CleanNow   string       // v1alpha1.Topic.CleanNow: each new value cleans each replica once
	Partitions []*Partition // by index
}

// Partition is the assignment and leadership of a partition.
type Partition struct {
	Index int32
	// Replicas are the brokers that hold a log of the partition: the preferred leader first, and
	// replicas that a reassignment adds last. An empty list means that they are unknown.
	Replicas []int32
	Leader   int32 // NoBroker: offline
	// UnprovenEpoch is the latest leader epoch whose leader may have lacked acknowledged records
	// when it was elected; 0: none.
	UnprovenEpoch int32
	LeaderEpoch   int32   // grows with each election; every batch contains it
	ISR           []int32 // in-sync replicas; each holds all records below the high watermark
	// Target is the assignment after the current reassignment; nil: there is none.
	Target []int32
	// ReplicaIncarnations are the replica incarnation ids of Replicas, in their order; "" for a
	// replica of an earlier version without one. It may be nil. A replica that was removed and
	// added again has another id (ADR 0185).
	ReplicaIncarnations []string
	// ISREpochs are the broker epochs of ISR, in its order; nil: unknown.
	ISREpochs []int64
	// Fenced are the replicas that are recorded as in sync but omitted from ISR, because their
	// broker epoch is fenced (placement.InSyncReplica.Fenced). The leader may remove them at once.
	Fenced []InSync
}

// DependsOn reports whether a broker can still hand over a partition. That is so if the broker
// leads a partition that another in-sync replica could lead, or if it is in the ISR of a partition
// that another broker leads. The other broker must be up and not in controlled shutdown.
func (i *Image) DependsOn(broker int32) bool {
	stays := func(id int32) bool {
		other, up := i.Broker(id)
		return up && id != broker && !other.Leaving
	}
	for _, topic := range i.Topics {
		for _, p := range topic.Partitions {
			if p.Leader == broker && slices.ContainsFunc(p.ISR, stays) || stays(p.Leader) &&
				slices.Contains(p.ISR, broker) {
				return true
			}
		}
	}
	return false
}

// SetISR sets ISR, ISREpochs and Fenced from the recorded ISR, given the brokers that are up.
func (p *Partition) SetISR(leader int32, recorded []placement.InSyncReplica, up map[int32]Broker) {
	p.ISR, p.ISREpochs, p.Fenced = nil, nil, nil
	for _, m := range recorded {
		b, lives := up[m.Broker]
		if lives && m.Broker != leader && m.Fenced(b.State()) {
			p.Fenced = append(p.Fenced, InSync{Broker: m.Broker, Epoch: m.Epoch})
			continue
		}
		p.ISR, p.ISREpochs = append(p.ISR, m.Broker), append(p.ISREpochs, m.Epoch)
	}
}

// State returns the broker in the form in which placement decides about it.
func (b Broker) State() placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: b.Epoch, CleanEpoch: b.CleanEpoch,
		Directory: b.Directory, Leaving: b.Leaving}
}

// ReplicaIncarnation returns the replica incarnation id of a broker, "" if it has none.
func (p *Partition) ReplicaIncarnation(broker int32) string {
	if at := slices.Index(p.Replicas, broker); at >= 0 && at < len(p.ReplicaIncarnations) {
		return p.ReplicaIncarnations[at]
	}
	return ""
}

// NewImage sorts and indexes its arguments, which it owns from then on.
func NewImage(clusterID string, cleaner CleanerBudget, brokers []Broker, topics []*Topic) *Image {
	return Indexed(&Image{ClusterID: clusterID, Cleaner: cleaner, Defaults: topicconfig.Default(),
		Brokers: brokers, Topics: topics})
}

// Indexed sorts and indexes an image of which only the fields are set, as after decoding. It
// returns its argument.
func Indexed(image *Image) *Image {
	image.byName, image.byID = make(map[string]*Topic, len(image.Topics)),
		make(map[ID]*Topic, len(image.Topics))
	slices.SortFunc(image.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(image.Topics, func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	for _, topic := range image.Topics {
		image.byName[topic.Name] = topic
		image.byID[topic.ID] = topic
	}
	return image
}

// Topic returns a topic by name, nil if there is none.
func (i *Image) Topic(name string) *Topic { return i.byName[name] }

// TopicByID returns a topic by id, nil if there is none.
func (i *Image) TopicByID(id ID) *Topic { return i.byID[id] }

// Broker returns a broker that is up; ok is false if there is none.
func (i *Image) Broker(id int32) (b Broker, ok bool) {
	at, ok := slices.BinarySearchFunc(i.Brokers, id,
		func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return i.Brokers[at], true
}
