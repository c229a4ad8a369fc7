package metadata

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/pressure"
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
	// FormatLevel is the format level of the cluster (docs/format/format-level.md); 0: not known.
	FormatLevel int32
	Groups      Groups
	// Transactions configures the transaction coordinators.
	Transactions Transactions
	// Pressure are the thresholds of storage pressure; the zero value: the defaults.
	Pressure pressure.Thresholds
	Metrics  Metrics
	Scrub    Scrub
	ScrubNow ScrubRequest
	// LogLevel is the log level of the brokers; nil: the one that they have been started with.
	LogLevel *slog.Level
	// GroupOverrides contains the settings of single groups, by group id; it may be nil.
	GroupOverrides map[string]GroupOverride
	Defaults       topicconfig.Settings // settings of a topic whose resource sets none
	// ClusterProperties are the broker settings of the LogCluster, by Kafka name
	// (ClusterProperties).
	ClusterProperties map[string]string
	// Security contains the users; nil: there are none, and every request is allowed.
	Security *Security
	Brokers  []Broker // brokers that are up, sorted by ID
	Topics   []*Topic // sorted by Name
	// Unresolved are the ids of the topics that exist, but whose settings are invalid and not known
	// from an earlier image. No broker serves them, and their logs must be kept.
	Unresolved []ID
	// Retained contains the partitions of deleted topics whose records are retained or being
	// removed, sorted by topic and partition.
	Retained []RetainedPartition

	byName map[string]*Topic
	byID   map[ID]*Topic
}

// PeerTLS is the prefix of the peer address of a broker that serves mutual TLS at this address. A
// broker uses TLS for an address that is registered with this prefix, so one rolling restart of a
// LogCluster introduces mutual TLS. Until all brokers have restarted, they also accept followers
// without TLS at this address.
const PeerTLS = "tls://"

// Broker is a broker that is up.
type Broker struct {
	ID int32
	// Epoch is the broker epoch. It grows with each start of the broker.
	Epoch int64
	// Endpoints are the addresses at which clients reach the broker, by listener.
	Endpoints Endpoints
	Rack      string
	// Peer is the host:port at which other brokers reach this broker; "": they use the endpoint of
	// DefaultListener. On Kubernetes it is the IP address of the pod. It needs no DNS, and unlike a
	// DNS name it cannot lead to an earlier pod of the broker.
	Peer string
	// Directory identifies the broker's disk. A broker that registers with a different directory
	// has lost its logs.
	Directory string
	// CleanEpoch is the broker epoch that ended with a clean shutdown and left the disk in its
	// present state. It is -1 if the last shutdown was not clean or the disk is new. The broker
	// writes CleanEpoch to a file in the data directory after it has closed the last log. At
	// startup the broker removes the file before it writes anything else. So the file proves that
	// the disk holds every record that the broker held in that epoch (KIP-966).
	CleanEpoch int64
	// ProducerIDs is a bound: every producer id that a broker with this ID has allocated contains a
	// counter below it. At registration the broker sends the bound for its disk; the bound includes
	// the ids that the broker may allocate before its next registration. The store keeps the highest
	// bound (NextProducerIDs).
	ProducerIDs int64
	// ProducerIDsLost reports that the file of allocated producer ids was unusable when the broker
	// registered; NextProducerIDs treats the disk as a new one.
	ProducerIDsLost bool
	// TransactionVersion is the highest transaction version (KIP-890) that the broker supports.
	TransactionVersion int16
	// Leaving reports that the broker is in controlled shutdown. It serves the partitions that it
	// leads until other brokers lead them, and must not be elected.
	//
	// An isolated broker is Leaving too, until it is no longer isolated.
	Leaving bool
	// Isolated reports that the broker is cut off from other brokers (internal/reachability).
	Isolated bool
}

// CleanerBudget bounds the resources of a broker's cleaner.
type CleanerBudget struct {
	Workers     int // 0: the cleaner is disabled
	MemoryBytes int64
	IOBytesRate int64 // bytes a second; 0: unlimited
}

// Replication is the configuration of replication between brokers.
type Replication struct {
	// LagMax is how long a follower may lag before it leaves the ISR; 0: the broker's default.
	LagMax time.Duration
	// CatchUpBytesRate limits what each broker sends to replicas that are not in sync, in bytes a
	// second; 0: unlimited.
	CatchUpBytesRate int64
	// MoveBytesRate limits what each broker sends to replicas that a reassignment adds, in bytes a
	// second, instead of CatchUpBytesRate; 0: CatchUpBytesRate applies.
	MoveBytesRate int64
}

// Groups is the configuration of consumer groups. For a field that is 0 the broker uses Kafka's
// default.
type Groups struct {
	SessionMin, SessionMax time.Duration // bounds of the members' session timeouts
	// InitialDelay is how long an empty group waits for more members; negative: it does not wait.
	InitialDelay time.Duration
	MembersMax   int
	// OffsetsRetention applies to topics to which no member of the group is subscribed.
	OffsetsRetention     time.Duration
	OffsetsCheckInterval time.Duration
	ConsumerSession      time.Duration // session timeout in the consumer protocol
	ConsumerInterval     time.Duration // heartbeat interval in the consumer protocol
	// ConsumerAssignment is the minimum time between two assignments of a group in the consumer
	// protocol (KIP-1263); negative: 0.
	ConsumerAssignment time.Duration
	// bounds of the settings of the consumer protocol that admin requests set for one group
	ConsumerSessionMin, ConsumerSessionMax   time.Duration
	ConsumerIntervalMin, ConsumerIntervalMax time.Duration
	// MetadataBytesMax is the limit for the metadata of one committed offset; negative: none is
	// allowed.
	MetadataBytesMax  int
	OffsetsPartitions int32 // number of partitions when __consumer_offsets is created
	OffsetsReplicas   int32
}

// Transactions is the configuration of transactions. For a field that is 0 the broker uses Kafka's
// default.
type Transactions struct {
	TimeoutMax   time.Duration // limit of the timeouts that clients ask for
	IDExpiration time.Duration // unused transactional ids are deleted after it
	Partitions   int32         // number of partitions when __transaction_state is created
	Replicas     int32
}

// Topic is a topic and its partitions.
type Topic struct {
	Name       string
	ID         ID
	Settings   topicconfig.Settings
	Own        []string // properties that the Topic itself sets, sorted; others have defaults
	Internal   bool     // written by brokers only; clients hide it by default
	RetainData bool     // reclaimPolicy Retain: the data stays when the topic is deleted
	// CleanNow is v1alpha1.Topic.CleanNow: after each change of the value, each replica is
	// compacted once.
	CleanNow   string
	Partitions []*Partition // by index
}

// Partition is the assignment and leadership of a partition.
type Partition struct {
	Index int32
	// Replicas are the brokers that hold a log of the partition. The preferred leader is first, and
	// replicas that a reassignment adds are last. If the list is empty, the replicas are unknown.
	Replicas []int32
	Leader   int32 // NoBroker: offline
	// UnprovenEpoch is the latest leader epoch whose leader may have lacked acknowledged records
	// when it was elected; 0: there is no such epoch.
	UnprovenEpoch int32
	LeaderEpoch   int32 // number of the election; every batch contains it
	// PartitionEpoch grows with each change of the partition's recorded state, as in KRaft (KIP-497).
	// It may be lower than the epoch of the state in the other fields, if the changes in between
	// concern none of them.
	PartitionEpoch int64
	ISR            []int32 // in-sync replicas; each holds all records below the high watermark
	// Target is the assignment after the current reassignment; nil: no reassignment is in progress.
	Target []int32
	// ReplicaIncarnations are the replica incarnation ids of Replicas, in the order of Replicas.
	// Before the first election the ids are "", or the list is nil. A replica that is removed and
	// added again gets another id (ADR 0185).
	ReplicaIncarnations []string
	// ISREpochs are the broker epochs of the brokers in ISR, in the order of ISR; nil: unknown.
	ISREpochs []int64
	// Fenced contains the members of ISR whose broker epoch is fenced
	// (placement.InSyncReplica.Fenced). The leader proposes at once to remove them. Until the removal
	// is recorded, it treats them as members, because the ISR may be older than the brokers in this
	// image.
	Fenced []InSync
	// RecordsLost is true if the partition has no leader, and its in-sync replicas have all lost
	// their records: only an unclean election ends that (placement.RecordsLost).
	RecordsLost bool
}

// Equal reports whether two partitions have the same content. It ignores PartitionEpoch, because a
// report that the leader serves changes only that field, and such a partition need not be applied
// again.
func (p *Partition) Equal(other *Partition) bool {
	return p == other || p.Index == other.Index && p.Leader == other.Leader &&
		p.UnprovenEpoch == other.UnprovenEpoch && p.LeaderEpoch == other.LeaderEpoch &&
		slices.Equal(p.Replicas, other.Replicas) && slices.Equal(p.ISR, other.ISR) &&
		slices.Equal(p.Target, other.Target) &&
		slices.Equal(p.ReplicaIncarnations, other.ReplicaIncarnations) &&
		slices.Equal(p.ISREpochs, other.ISREpochs) && slices.Equal(p.Fenced, other.Fenced) &&
		p.RecordsLost == other.RecordsLost
}

// RetainedPartition is a partition of a topic that was deleted with reclaimPolicy Retain. If a
// topic is created again under the same name, it continues with these records, unless they are
// being removed.
type RetainedPartition struct {
	Topic       string // name of the Topic resource; in heartwood dev the Kafka name
	Partition   int32
	Replicas    []int32 // brokers that hold the records
	LeaderEpoch int32   // of the last election; 0: the partition has no records
	Tag         string  // the beginning of the id of the deleted topic
	Removing    bool    // a person has given up the records: brokers delete them
}

// Compare orders retained partitions by topic and number.
func (p RetainedPartition) Compare(other RetainedPartition) int {
	return cmp.Or(cmp.Compare(p.Topic, other.Topic), cmp.Compare(p.Partition, other.Partition))
}

// DependsOn reports whether the controlled shutdown of a broker must still wait for another broker.
// This is the case if the broker leads a partition whose ISR contains another available broker,
// which can become the leader, or if the broker is in the ISR of a partition that another available
// broker leads, which can remove it. A broker is available if it is up and not in controlled
// shutdown.
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

// SetISR sets ISR, ISREpochs, Fenced and RecordsLost from the recorded ISR and the brokers that are
// up.
func (p *Partition) SetISR(leader int32, recorded []placement.InSyncReplica, up map[int32]Broker) {
	p.ISR, p.ISREpochs, p.Fenced = nil, nil, nil
	states := make(map[int32]placement.BrokerState, len(recorded))
	for _, m := range recorded {
		b, lives := up[m.Broker]
		if lives {
			states[m.Broker] = b.State()
		}
		if lives && m.Broker != leader && m.Fenced(b.State()) {
			p.Fenced = append(p.Fenced, InSync{Broker: m.Broker, Epoch: m.Epoch})
		}
		p.ISR, p.ISREpochs = append(p.ISR, m.Broker), append(p.ISREpochs, m.Epoch)
	}
	p.RecordsLost = leader == NoBroker && placement.RecordsLost(recorded, states)
}

// State converts the broker to the form that package placement uses for its decisions.
func (b Broker) State() placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: b.Epoch, CleanEpoch: b.CleanEpoch,
		Directory: b.Directory, Leaving: b.Leaving}
}

// ReplicaIncarnation returns the replica incarnation id of a broker, or "" if it is unknown.
func (p *Partition) ReplicaIncarnation(broker int32) string {
	if index := slices.Index(p.Replicas, broker); index >= 0 && index < len(p.ReplicaIncarnations) {
		return p.ReplicaIncarnations[index]
	}
	return ""
}

// NewImage returns an image of its arguments, sorted and indexed. The caller must not use the
// slices afterwards.
func NewImage(clusterID string, cleaner CleanerBudget, brokers []Broker, topics []*Topic) *Image {
	return Indexed(&Image{ClusterID: clusterID, Cleaner: cleaner, Defaults: topicconfig.Default(),
		Brokers: brokers, Topics: topics})
}

// Indexed sorts the brokers and topics of an image, builds its indexes, and returns it. The caller
// has set the exported fields only, for example by decoding.
func Indexed(image *Image) *Image {
	image.Security.Compiled()
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

// WithoutDeleted returns the image without the topics that a newer image of the same cluster does
// not contain. It returns the image itself if the newer image contains all of them, or belongs to
// another cluster.
func (i *Image) WithoutDeleted(newer *Image) *Image {
	if newer == nil || newer == i || newer.ClusterID != i.ClusterID {
		return i
	}
	deleted := func(t *Topic) bool { return newer.TopicByID(t.ID) == nil }
	if !slices.ContainsFunc(i.Topics, deleted) {
		return i
	}
	remaining := *i
	remaining.Topics = slices.DeleteFunc(slices.Clone(i.Topics), deleted)
	return Indexed(&remaining)
}

// Topic returns the topic with a name, or nil if it does not exist.
func (i *Image) Topic(name string) *Topic { return i.byName[name] }

// TopicByID returns the topic with an id, or nil if it does not exist.
func (i *Image) TopicByID(id ID) *Topic { return i.byID[id] }

// Broker returns the broker with an id; ok is false if it is not up.
func (i *Image) Broker(id int32) (b Broker, ok bool) {
	index, ok := slices.BinarySearchFunc(i.Brokers, id,
		func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return i.Brokers[index], true
}

// TransactionVersion returns the transaction version of the cluster: the highest one that all
// brokers support.
func (i *Image) TransactionVersion() int16 {
	if len(i.Brokers) == 0 {
		return 0
	}
	version := i.Brokers[0].TransactionVersion
	for n := range i.Brokers {
		version = min(version, i.Brokers[n].TransactionVersion)
	}
	return version
}
