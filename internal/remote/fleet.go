package remote

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// fleetTimeout limits the request to one broker of a Fleet. A page of the console waits for all
// brokers, so a broker that does not respond must not delay it for longer.
const fleetTimeout = time.Second

// Fleet requests reports from all brokers of a cluster at once.
type Fleet struct {
	client    *Client
	addresses []string
	// discover is set if the fleet also sends requests to brokers that it learns of from responses, at
	// the same port.
	discover bool

	mu struct {
		sync.Mutex
		asked []string // addresses of the brokers in the last Ask
	}
}

// NewFleet returns a fleet of the brokers at addresses (HOST:PORT), at least one. If discover is
// set, the fleet also sends requests to the brokers that responses name, at the first address's
// port. Their names must resolve, as inside a Kubernetes cluster.
func NewFleet(client *Client, addresses []string, discover bool) *Fleet {
	return &Fleet{client: client, addresses: addresses, discover: discover}
}

// Unanswered is a broker that did not respond.
type Unanswered struct {
	Address string
	Err     error
}

// Answers contains the combined reports of the brokers that responded.
type Answers struct {
	Placement  report.Placement
	Partitions []report.Partition // sorted by topic, partition and broker
	Volumes    []report.Volume    // sorted by broker
	Unanswered []Unanswered       // sorted by address
	Asked      int                // number of brokers to which requests were sent
	Addresses  []string           // addresses of these brokers
}

// answer is one broker's response.
type answer struct {
	address   string
	placement report.Placement
	rows      []report.Partition
	volumes   []report.Volume
	err       error
}

// Ask requests the placement and the partition replicas of topics, and the volumes, from all
// brokers. If topics is empty, all topics are included.
func (f *Fleet) Ask(ctx context.Context, topics []string) Answers {
	answers := f.askAll(ctx, f.addresses, topics)
	if f.discover {
		answers = append(answers, f.askAll(ctx, f.further(answers), topics)...)
	}
	all := combine(answers)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.asked = all.Addresses
	return all
}

// known returns the addresses of the brokers in the last Ask.
func (f *Fleet) known() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.asked) == 0 {
		return f.addresses
	}
	return f.mu.asked
}

func (f *Fleet) askAll(ctx context.Context, addresses, topics []string) []answer {
	answers := make([]answer, len(addresses))
	var requests sync.WaitGroup
	for i, address := range addresses {
		requests.Go(func() { answers[i] = f.ask(ctx, address, topics) })
	}
	requests.Wait()
	return answers
}

func (f *Fleet) ask(ctx context.Context, address string, topics []string) answer {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	reply := answer{address: address}
	var rows report.Partitions
	if reply.placement, reply.err = f.client.placement(ctx, address, topics); reply.err == nil {
		rows, reply.err = f.client.rows(ctx, address, topics)
	}
	if reply.err == nil {
		reply.volumes, reply.err = f.client.Volumes(ctx, address)
	}
	reply.rows = rows.Partitions
	return reply
}

// further returns the addresses of brokers that the answers name and that have not received the
// request yet.
func (f *Fleet) further(answers []answer) (addresses []string) {
	_, port, err := net.SplitHostPort(f.addresses[0])
	if err != nil {
		return nil
	}
	for _, answer := range answers {
		for _, broker := range answer.placement.Brokers {
			address := net.JoinHostPort(broker.Host, port)
			if broker.Host != "" && !slices.Contains(addresses, address) &&
				!slices.Contains(f.addresses, address) {
				addresses = append(addresses, address)
			}
		}
	}
	slices.Sort(addresses)
	return addresses
}

// combine merges the responses. If a partition's leader responded, the partition's entry is taken
// from that response, because only the leader reports the lag.
func combine(answers []answer) Answers {
	all := Answers{Asked: len(answers)}
	rows := map[replicaKey]report.Partition{}
	first := true
	for _, answer := range answers {
		all.Addresses = append(all.Addresses, answer.address)
		if answer.err != nil {
			all.Unanswered = append(all.Unanswered, Unanswered{answer.address, answer.err})
			continue
		}
		for _, row := range answer.rows {
			rows[replicaKey{row.Topic, row.Partition, row.Broker}] = row
		}
		all.Volumes = append(all.Volumes, answer.volumes...)
		if first {
			all.Placement, first = answer.placement, false
		}
	}
	for _, answer := range answers {
		if answer.err == nil {
			mergeLeaders(&all.Placement, answer.placement)
		}
	}
	for _, row := range rows {
		all.Partitions = append(all.Partitions, row)
	}
	slices.SortFunc(all.Partitions, func(a, b report.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Broker, b.Broker))
	})
	slices.SortFunc(all.Volumes,
		func(a, b report.Volume) int { return cmp.Compare(a.Broker, b.Broker) })
	slices.SortFunc(all.Unanswered,
		func(a, b Unanswered) int { return strings.Compare(a.Address, b.Address) })
	return all
}

type replicaKey struct {
	topic     string
	partition int32
	broker    int32
}

// mergeLeaders replaces the partitions that the responding broker leads, because only that broker
// knows their lag.
func mergeLeaders(placement *report.Placement, other report.Placement) {
	for _, theirs := range other.Partitions {
		index, found := slices.BinarySearchFunc(placement.Partitions, theirs,
			func(a, b report.PlacedPartition) int {
				return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
			})
		if found && theirs.Lag != nil && theirs.LeaderEpoch >= placement.Partitions[index].LeaderEpoch {
			placement.Partitions[index] = theirs
		}
	}
}

// Clean requests passes over all replicas of a topic, or of the given partitions, from all brokers.
func (f *Fleet) Clean(ctx context.Context, topic string, partitions []int32) (*Cleaning, error) {
	return f.client.Start(ctx, Clean{Topic: topic, Partitions: partitions, Addresses: f.addresses})
}
