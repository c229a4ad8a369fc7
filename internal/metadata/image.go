package metadata

import (
	"cmp"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// NoBroker is the leader of a partition that has none.
const NoBroker int32 = -1

// Image is everything a broker knows of its cluster, at one moment. It is immutable: a change is a
// new image.
type Image struct {
	ClusterID   string
	Cleaner     CleanerBudget
	Policy      AdminPolicy
	Replication Replication
	Groups      Groups
	Defaults    topicconfig.Settings // of a topic that sets nothing
	Brokers     []Broker             // sorted by ID; those that are up
	Topics      []*Topic             // sorted by Name

	byName map[string]*Topic
	byID   map[ID]*Topic
}

// Broker is a broker that is up.
type Broker struct {
	ID int32
	// incarnation: higher at each start, so that news of an earlier one can be told from this one's
	Epoch int64
	// Endpoints are where clients reach it, by listener.
	Endpoints Endpoints
	Rack      string
	// Peer is the host:port at which other brokers reach it; "": the endpoint of DefaultListener.
	// The address of a pod needs no DNS, and never belongs to an earlier pod.
	Peer string
	// Directory identifies the broker's disk: another one means that its logs are gone.
	Directory string
	// CleanEpoch is the incarnation whose orderly stop left this disk as it is; -1: the stop before
	// was none, or the disk is new. The broker keeps it in the data directory, writes it after the
	// last log was closed, and removes it at a start before anything else is written: so the disk
	// itself proves it (KIP-966). What such a disk holds is what that incarnation held.
	CleanEpoch int64
	// ProducerIDs bounds the counters of producer ids that brokers of this id have given out: all
	// are below. A broker that registers says it for the disk it has, and for what it may give out
	// until it registers again; the store remembers the highest (NextProducerIDs).
	ProducerIDs int64
	// ProducerIDsLost: at registration, the disk has no usable record of the ids that were issued
	// from it; NextProducerIDs treats it as a new disk.
	ProducerIDsLost bool
	// Leaving: the broker shuts down in order. It lives, and serves what it leads until others do,
	// and must be elected no more.
	Leaving bool
}

// CleanerBudget bounds what a broker's cleaner may use.
type CleanerBudget struct {
	Workers     int // 0: none, cleaning is off
	MemoryBytes int64
	IOBytesRate int64 // a second; 0: no limit
}

// Replication is how brokers copy from each other.
type Replication struct {
	// how long a follower in sync may be behind; 0: the broker's default
	LagMax time.Duration
	// a second, of each broker, to replicas that are not in sync; 0: no limit
	CatchUpBytesRate int64
}

// Groups is how consumer groups are coordinated. A field that is 0 is left to the broker, which has
// Kafka's defaults.
type Groups struct {
	SessionMin, SessionMax time.Duration // which session timeouts members may ask for
	// how long an empty group waits for more members; negative: not at all
	InitialDelay         time.Duration
	MembersMax           int
	OffsetsRetention     time.Duration // of offsets that no member's subscription keeps
	OffsetsCheckInterval time.Duration
	ConsumerSession      time.Duration // of members of the consumer protocol
	ConsumerInterval     time.Duration // between their heartbeats
	MetadataBytesMax     int           // of one offset; negative: none
	OffsetsPartitions    int32         // of __consumer_offsets, when it is made
	OffsetsReplicas      int32
}

// Topic is a topic and its partitions.
type Topic struct {
	Name       string
	ID         ID
	Settings   topicconfig.Settings
	Internal   bool         // the brokers' own; clients hide it from lists unless asked
	RetainData bool         // reclaimPolicy: what becomes of the data when the topic goes
	CleanNow   string       // v1alpha1.Topic.CleanNow: each replica is cleaned once for each value
	Partitions []*Partition // by index
}

// Partition is who holds and leads a partition.
type Partition struct {
	Index int32
	// all that hold a log now; the preferred leader first, during a move the new ones last. Empty:
	// nobody knows
	Replicas []int32
	Leader   int32 // NoBroker: offline
	// UnprovenEpoch is the latest leader epoch whose leader may have lacked acknowledged records
	// when it was elected; 0: none.
	UnprovenEpoch int32
	LeaderEpoch   int32   // grows with each election; stamped on every batch
	ISR           []int32 // in sync: all of them hold what is below the high watermark
	// where the replicas are to be, when that is not where they are; nil: they are there
	Target []int32
	// ReplicaIncarnations are of Replicas, in their order: the name of the time that each is one, "" of one
	// from before there were names. It may be nil. A replica that was taken off and put on again
	// has another name (ADR 0185).
	ReplicaIncarnations []string
	// of ISR, in its order: in which incarnation each is in sync; nil: nobody says
	ISREpochs []int64
	// Fenced are on record as in sync, and left out of ISR: see placement.Member.Fenced. Their leader
	// may forget them at once.
	Fenced []InSync
}

// DependsOn tells whether a partition that could do without a broker counts on it: the broker leads
// it, and another that is in sync could; or another leads it, and the broker is in sync. Others are
// brokers that live and do not leave.
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

// SetISR fills in who is in sync on record, given the brokers that are up.
func (p *Partition) SetISR(leader int32, recorded []placement.InSyncReplica, up map[int32]Broker) {
	p.ISR, p.ISREpochs, p.Fenced = nil, nil, nil
	for _, m := range recorded {
		b, lives := up[m.Broker]
		if lives && m.Broker != leader && m.Fenced(b.Standing()) {
			p.Fenced = append(p.Fenced, InSync{Broker: m.Broker, Epoch: m.Epoch})
			continue
		}
		p.ISR, p.ISREpochs = append(p.ISR, m.Broker), append(p.ISREpochs, m.Epoch)
	}
}

// Standing is a broker that is up, as decisions look at it.
func (b Broker) Standing() placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: b.Epoch, CleanEpoch: b.CleanEpoch,
		Directory: b.Directory, Leaving: b.Leaving}
}

// ReplicaIncarnation is the assignment of a replica, "" if it has none.
func (p *Partition) ReplicaIncarnation(broker int32) string {
	if at := slices.Index(p.Replicas, broker); at >= 0 && at < len(p.ReplicaIncarnations) {
		return p.ReplicaIncarnations[at]
	}
	return ""
}

// NewImage indexes topics and sorts; the arguments are the image's from then on.
func NewImage(clusterID string, cleaner CleanerBudget, brokers []Broker, topics []*Topic) *Image {
	return Indexed(&Image{ClusterID: clusterID, Cleaner: cleaner, Defaults: topicconfig.Default(),
		Brokers: brokers, Topics: topics})
}

// Indexed makes an image of one that has its fields alone, as after it was decoded: it sorts, and
// finds topics. It returns the same.
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

// Topic finds a topic by name; nil if there is none.
func (i *Image) Topic(name string) *Topic { return i.byName[name] }

// TopicByID finds a topic by id; nil if there is none.
func (i *Image) TopicByID(id ID) *Topic { return i.byID[id] }

// Broker finds a broker that is up; ok is false if there is none.
func (i *Image) Broker(id int32) (b Broker, ok bool) {
	at, ok := slices.BinarySearchFunc(i.Brokers, id,
		func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return i.Brokers[at], true
}
