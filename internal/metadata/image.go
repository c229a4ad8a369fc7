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

// Image contains the metadata of a cluster at one point in time. It is immutable: each change
// creates a new image.
type Image struct {
	ClusterID   string
	Cleaner     CleanerBudget
	Policy      AdminPolicy
	Replication Replication
	// FormatLevel is the cluster's format level (docs/internals/format/format-level.md); 0 if not
	// known.
	FormatLevel int32
	Groups      Groups
	// Transactions contains the configuration of the transaction coordinators.
	Transactions Transactions
	// Pressure contains the thresholds of storage pressure. The zero value selects the defaults.
	Pressure pressure.Thresholds
	Metrics  Metrics
	Scrub    Scrub
	ScrubNow ScrubRequest
	// LogLevel is the log level of the brokers. If it is nil, brokers use the level with which they
	// were started.
	LogLevel *slog.Level
	// GroupOverrides contains the settings for single groups, by group id. It may be nil.
	GroupOverrides map[string]GroupOverride
	Defaults       topicconfig.Settings // settings of a topic whose resource sets none
	// ClusterProperties contains the LogCluster's broker settings by Kafka name. See the function
	// ClusterProperties.
	ClusterProperties map[string]string
	// Security contains the users. If it is nil, there are no users, and every request is allowed.
	Security *Security
	Brokers  []Broker // brokers that are up, sorted by ID
	Topics   []*Topic // topics, sorted by Name
	// Unresolved contains the ids of topics that exist, but whose settings are invalid and not known
	// from an earlier image. No broker serves these topics, and their logs must be kept.
	Unresolved []ID
	// Retained contains the partitions of deleted topics whose records are still retained, or are
	// being removed, sorted by topic and partition.
	Retained []RetainedPartition

	byName map[string]*Topic
	byID   map[ID]*Topic
}

// PeerTLS is the prefix of a broker's peer address if the broker serves mutual TLS at that address.
// Brokers connect with TLS to an address with this prefix. So one rolling restart of a LogCluster
// introduces mutual TLS. Until all brokers have restarted, brokers also accept followers without
// TLS at this address.
const PeerTLS = "tls://"

// Broker is a broker that is up.
type Broker struct {
	ID int32
	// Epoch is the broker epoch, which grows with each start of the broker.
	Epoch int64
	// Endpoints contains the addresses at which clients reach the broker, by listener.
	Endpoints Endpoints
	Rack      string
	// Peer is the host:port at which other brokers reach this broker. If it is "", they use the
	// endpoint of DefaultListener. On Kubernetes it contains the pod's IP address. It needs no DNS
	// and, unlike a DNS name, cannot resolve to an earlier pod of the broker.
	Peer string
	// Directory identifies the broker's disk. If a broker registers with another directory, it has
	// lost its logs.
	Directory string
	// CleanEpoch is the broker epoch that ended with a clean shutdown and left the disk in its current
	// state. It is -1 if the last shutdown was not clean or the disk is new. The broker writes
	// CleanEpoch to a file in the data directory after it has closed the last log. At startup the
	// broker removes the file before it writes anything else. So the file proves that the disk
	// contains every record that the broker had in that epoch (KIP-966).
	CleanEpoch int64
	// BootEpoch is the broker epoch of the first process on the disk since the broker's machine has
	// booted; 0 if unknown. The disk has all that the process with this epoch and later ones have
	// written, even if they were killed.
	BootEpoch int64 `json:",omitempty"`
	// ProducerIDs is an upper bound: the counter in every producer id that this broker has allocated
	// is below it. At registration the broker sends a bound for its disk, which includes the ids that
	// the broker may allocate before its next registration. The store keeps the highest bound
	// (NextProducerIDs).
	ProducerIDs int64
	// ProducerIDsLost means that the file of allocated producer ids was unusable when the broker
	// registered. NextProducerIDs then treats the disk as new.
	ProducerIDsLost bool
	// Losses contains the logs that have lost records. Only the argument of Store.Run contains them:
	// Run records the losses before it registers the broker. It is nil if there are none.
	Losses *Losses `json:",omitempty"`
	// TransactionVersion is the highest transaction version (KIP-890) that the broker supports.
	TransactionVersion int16
	// Leaving means that the broker is in controlled shutdown. It continues to serve the partitions
	// that it leads until other brokers lead them, and must not be elected.
	//
	// An isolated broker is also Leaving as long as it is isolated.
	Leaving bool
	// Isolated means that the broker has no connection to other brokers (internal/reachability).
	Isolated bool
}

// CleanerBudget limits the resources that a broker's cleaner uses.
type CleanerBudget struct {
	Workers     int // number of workers; 0 disables the cleaner
	MemoryBytes int64
	IOBytesRate int64 // I/O in bytes per second; 0: unlimited
}

// Replication contains the configuration of replication between brokers.
type Replication struct {
	// LagMax is how long a follower may lag before it leaves the ISR; 0 selects the broker's default.
	LagMax time.Duration
	// CatchUpBytesRate is the maximum rate at which each broker sends data to replicas that are not in
	// sync, in bytes per second; 0: unlimited.
	CatchUpBytesRate int64
	// MoveBytesRate is the maximum rate at which each broker sends data to replicas that a
	// reassignment adds, in bytes per second. It applies instead of CatchUpBytesRate. If it is 0,
	// CatchUpBytesRate applies.
	MoveBytesRate int64
}

// Groups contains the configuration of consumer groups. Kafka's default applies to a field that is
// 0.
type Groups struct {
	SessionMin, SessionMax time.Duration // minimum and maximum of the members' session timeouts
	// InitialDelay is how long an empty group waits for more members. If it is negative, the group
	// does not wait.
	InitialDelay time.Duration
	MembersMax   int
	// OffsetsRetention applies to offsets of topics to which no group member subscribes.
	OffsetsRetention     time.Duration
	OffsetsCheckInterval time.Duration
	ConsumerSession      time.Duration // session timeout in the consumer protocol
	ConsumerInterval     time.Duration // heartbeat interval in the consumer protocol
	// ConsumerAssignment is the minimum time between two assignments of a group in the consumer
	// protocol (KIP-1263). A negative value means 0.
	ConsumerAssignment time.Duration
	// These are the bounds of the consumer-protocol settings that admin requests set for single
	// groups.
	ConsumerSessionMin, ConsumerSessionMax   time.Duration
	ConsumerIntervalMin, ConsumerIntervalMax time.Duration
	// MetadataBytesMax is the maximum size of the metadata of one committed offset. If it is negative,
	// no metadata are allowed.
	MetadataBytesMax  int
	OffsetsPartitions int32 // number of partitions with which __consumer_offsets is created
	OffsetsReplicas   int32
}

// Transactions contains the configuration of transactions. Kafka's default applies to a field that
// is 0.
type Transactions struct {
	TimeoutMax   time.Duration // maximum of the timeouts that clients request
	IDExpiration time.Duration // time after which an unused transactional id is deleted
	Partitions   int32         // number of partitions with which __transaction_state is created
	Replicas     int32
}

// Topic is a topic and its partitions.
type Topic struct {
	Name       string
	ID         ID
	Settings   topicconfig.Settings
	Own        []string // sorted properties that the Topic itself sets; all others have defaults
	Internal   bool     // true if only brokers write the topic; clients hide it by default
	RetainData bool     // true if the data are kept when the topic is deleted (reclaimPolicy Retain)
	// CleanNow is the value of v1alpha1.Topic.CleanNow. Whenever the value changes, each replica is
	// compacted once.
	CleanNow   string
	Partitions []*Partition // partitions by index
}

// Partition describes a partition's assignment and leadership.
type Partition struct {
	Index int32
	// Replicas contains the brokers that have a log of the partition. The preferred leader is first,
	// and replicas that a reassignment adds are last. If the list is empty, the replicas are unknown.
	Replicas []int32
	Leader   int32 // leader; NoBroker if the partition is offline
	// UnprovenEpoch is the latest leader epoch whose leader may have lacked acknowledged records when
	// it was elected; 0 if there is no such epoch.
	UnprovenEpoch int32
	LeaderEpoch   int32 // number of the election; every batch contains it
	// PartitionEpoch grows with each change of the partition's recorded state, as in KRaft (KIP-497).
	// If some changes do not affect the other fields, PartitionEpoch may be lower than the current
	// epoch.
	PartitionEpoch int64
	ISR            []int32 // in-sync replicas; each has all records below the high watermark
	// Target is the assignment after the current reassignment; nil if no reassignment is in progress.
	Target []int32
	// ReplicaIncarnations contains the replica incarnation ids, in the order of Replicas. Before the
	// first election the ids are "", or the list is nil. A replica that is removed and added again
	// gets another id (ADR 0185).
	ReplicaIncarnations []string
	// ISREpochs contains the broker epochs of the brokers in ISR, in the order of ISR; nil if unknown.
	ISREpochs []int64
	// Fenced contains the ISR members whose broker epoch is fenced (placement.InSyncReplica.Fenced).
	// The leader immediately proposes to remove them. Until the removal is recorded, the leader treats
	// them as members, because the ISR may be older than the brokers in this image.
	Fenced []InSync
	// RecordsLost is true if the partition has no leader, and all its in-sync replicas have lost their
	// records. Only an unclean election ends this state (placement.RecordsLost).
	RecordsLost bool
}

// Equal reports whether two partitions have the same content. It ignores PartitionEpoch: when the
// leader reports that it serves, only that field changes, and the partition does not have to be
// applied again.
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
	Topic       string // name of the Topic resource; in heartwood dev, the Kafka name
	Partition   int32
	Replicas    []int32 // brokers that hold the records
	LeaderEpoch int32   // last leader epoch; 0 if the partition has no records
	Tag         string  // first characters of the deleted topic's id
	// true if an administrator has given up the records, so that brokers delete them
	Removing bool
}

// Compare orders retained partitions by topic and index.
func (p RetainedPartition) Compare(other RetainedPartition) int {
	return cmp.Or(cmp.Compare(p.Topic, other.Topic), cmp.Compare(p.Partition, other.Partition))
}

// DependsOn reports whether a broker's controlled shutdown must still wait, for one of two reasons.
// The broker leads a partition whose ISR contains another available broker, which can become the
// leader. Or the broker is in the ISR of a partition led by another available broker, which can
// remove it. A broker is available if it is up and not in controlled shutdown.
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

// State converts the broker to the form in which package placement uses it.
func (b Broker) State() placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: b.Epoch, CleanEpoch: b.CleanEpoch,
		BootEpoch: b.BootEpoch, Directory: b.Directory, Leaving: b.Leaving}
}

// ReplicaIncarnation returns the replica incarnation id of the replica on a broker, or "" if it is
// unknown.
func (p *Partition) ReplicaIncarnation(broker int32) string {
	if index := slices.Index(p.Replicas, broker); index >= 0 && index < len(p.ReplicaIncarnations) {
		return p.ReplicaIncarnations[index]
	}
	return ""
}

// NewImage returns an image that contains its arguments, sorted and indexed. The caller must not
// use the slices afterwards.
func NewImage(clusterID string, cleaner CleanerBudget, brokers []Broker, topics []*Topic) *Image {
	return Indexed(&Image{ClusterID: clusterID, Cleaner: cleaner, Defaults: topicconfig.Default(),
		Brokers: brokers, Topics: topics})
}

// Indexed sorts an image's brokers and topics, builds the image's indexes, and returns the image.
// Only the exported fields have to be set, for example by decoding.
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

// Topic returns the topic with the given name, or nil if it does not exist.
func (i *Image) Topic(name string) *Topic { return i.byName[name] }

// TopicByID returns the topic with the given id, or nil if it does not exist.
func (i *Image) TopicByID(id ID) *Topic { return i.byID[id] }

// Broker returns the broker with the given id. ok is false if the broker is not up.
func (i *Image) Broker(id int32) (b Broker, ok bool) {
	index, ok := slices.BinarySearchFunc(i.Brokers, id,
		func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return i.Brokers[index], true
}

// TransactionVersion returns the cluster's transaction version, which is the highest version that
// all brokers support.
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
