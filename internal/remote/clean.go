package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/report"
)

// Clean is a request to clean a topic immediately.
type Clean struct {
	Topic      string
	Partitions []int32  // empty: all partitions
	Addresses  []string // HOST:PORT of the brokers' HTTP ports, at least one
}

// Replica is the state of a clean request for one replica.
type Replica struct {
	Broker    int32 `json:"broker"`
	Partition int32 `json:"partition"`
	// State is first asked, and later done or failed. If the broker could not be reached, it is
	// unreached.
	State string `json:"state"`
	// Pass is the pass that the request has caused; nil until the pass has ended.
	Pass *report.Pass `json:"pass,omitempty"`
	// Reason is the reason why the pass did not clean a blocked part of the dirty section. The values
	// are reasons of the Topic's condition Compacting.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`

	address string
	ticket  int64
	printed string // last step that Wait has printed
}

// States of Replica.
const (
	Asked     = "asked"
	Done      = "done"
	Failed    = "failed"
	Unreached = "unreached"
)

func (r *Replica) name(topic string) string {
	return fmt.Sprintf("%s-%d on broker %d", topic, r.Partition, r.Broker)
}

// Cleaning is the state of a Clean request. It contains the replicas, sorted by partition and
// broker.
type Cleaning struct {
	Topic    string     `json:"topic"`
	Replicas []*Replica `json:"replicas"`
}

// Start sends the request to the brokers at clean.Addresses, and to the brokers of other replicas
// that their responses name. It fails if a broker refuses the request, or if one of clean.Addresses
// cannot be reached. If a broker that only a response has named cannot be reached, its replicas are
// Unreached.
func (c *Client) Start(ctx context.Context, clean Clean) (*Cleaning, error) {
	found := &Cleaning{Topic: clean.Topic, Replicas: []*Replica{}}
	elsewhere := map[[2]int32]report.CleanElsewhere{}
	err := spread(ctx, clean.Addresses, func(address string) error {
		answer, err := c.clean(ctx, address, clean.Topic, clean.Partitions)
		if err == nil {
			found.add(address, answer, elsewhere)
		}
		return err
	}, func() []string { return hosts(elsewhere) })
	if err != nil {
		return nil, err
	}
	for _, other := range elsewhere {
		found.Replicas = append(found.Replicas,
			&Replica{Broker: other.Broker, Partition: other.Partition, State: Unreached})
	}
	slices.SortFunc(found.Replicas, func(a, b *Replica) int {
		return slices.Compare([]int32{a.Partition, a.Broker}, []int32{b.Partition, b.Broker})
	})
	return found, nil
}

// spread sends a request to the brokers at addresses, and then to the hosts that their responses
// name, at the port of the first address. It fails if a broker refuses the request, or if one of
// addresses cannot be reached.
func spread(ctx context.Context, addresses []string, send func(address string) error,
	named func() []string) error {
	for _, address := range addresses {
		if err := send(address); err != nil {
			return err
		}
	}
	_, port, _ := net.SplitHostPort(addresses[0]) // ParseAddress has validated it
	for _, host := range named() {
		err := send(net.JoinHostPort(host, port))
		if errors.As(err, new(*Refused)) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// add adds the replicas for which a broker has accepted the request. It adds the replicas that the
// broker reports on other brokers to elsewhere, except replicas for which the request was already
// accepted.
func (c *Cleaning) add(address string, answer report.CleanRequests,
	elsewhere map[[2]int32]report.CleanElsewhere) {
	for _, request := range answer.Requests {
		delete(elsewhere, [2]int32{request.Broker, request.Partition})
		c.Replicas = append(c.Replicas, &Replica{
			Broker: request.Broker, Partition: request.Partition, State: Asked, address: address,
			ticket: request.Ticket,
		})
	}
	for _, other := range answer.Elsewhere {
		asked := func(r *Replica) bool {
			return r.Broker == other.Broker && r.Partition == other.Partition
		}
		if !slices.ContainsFunc(c.Replicas, asked) {
			elsewhere[[2]int32{other.Broker, other.Partition}] = other
		}
	}
}

// hosts returns the hosts of the brokers that have not received the request yet, sorted and without
// duplicates.
func hosts(elsewhere map[[2]int32]report.CleanElsewhere) (names []string) {
	for _, other := range elsewhere {
		if other.Host != "" && !slices.Contains(names, other.Host) {
			names = append(names, other.Host)
		}
	}
	slices.Sort(names)
	return names
}

// Fault returns an error that names the replicas that failed or could not be reached. It returns
// nil if every replica is done or still in progress.
func (c *Cleaning) Fault() error {
	var unreached, failed []string
	for _, r := range c.Replicas {
		switch r.State {
		case Unreached:
			unreached = append(unreached, r.name(c.Topic))
		case Failed:
			failed = append(failed, r.name(c.Topic)+": "+r.Error)
		}
	}
	var faults []error
	if len(failed) > 0 {
		faults = append(faults, fmt.Errorf("not cleaned: %s", strings.Join(failed, "; ")))
	}
	if len(unreached) > 0 {
		faults = append(faults,
			fmt.Errorf("failed to reach the brokers of %s\n"+
				"Pass their addresses with further --address flags; or, on Kubernetes, run\n"+
				"kubectl annotate topic NAME heartwood.dev/clean-now=\"$(date)\" --overwrite",
				strings.Join(unreached, ", ")))
	}
	return errors.Join(faults...)
}
