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

// Clean is a request to clean a topic now.
type Clean struct {
	Topic      string
	Partitions []int32  // none: all
	Addresses  []string // HOST:PORT of the brokers' HTTP ports, at least one
}

// Replica is one replica that is to be cleaned, and what became of it.
type Replica struct {
	Broker    int32 `json:"broker"`
	Partition int32 `json:"partition"`
	// State is asked, then done or failed; unreached if its broker could not be asked.
	State string `json:"state"`
	// Pass is the pass that served the request, absent before.
	Pass *report.Pass `json:"pass,omitempty"`
	// Reason is why there is something left to clean, if it is held back: a reason of the Topic
	// condition Compacting.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`

	address string
	ticket  int64
	seen    string // the step that was told last
}

// States of a Replica.
const (
	Asked     = "asked"
	Done      = "done"
	Failed    = "failed"
	Unreached = "unreached"
)

func (r *Replica) name(topic string) string {
	return fmt.Sprintf("%s-%d on broker %d", topic, r.Partition, r.Broker)
}

// Cleaning is what was asked for: sorted by partition and broker.
type Cleaning struct {
	Topic    string     `json:"topic"`
	Replicas []*Replica `json:"replicas"`
}

// Start asks the brokers, and those that they name. It fails when a broker refuses, or the first
// cannot be reached; a replica whose broker was named and cannot be reached is Unreached.
func (c *Client) Start(ctx context.Context, clean Clean) (*Cleaning, error) {
	found := &Cleaning{Topic: clean.Topic, Replicas: []*Replica{}}
	elsewhere := map[[2]int32]report.CleanElsewhere{}
	for _, address := range clean.Addresses {
		answer, err := c.clean(ctx, address, clean.Topic, clean.Partitions)
		if err != nil {
			return nil, err
		}
		found.take(address, answer, elsewhere)
	}
	for _, host := range hosts(elsewhere) {
		_, port, _ := net.SplitHostPort(clean.Addresses[0]) // was parsed before
		address := net.JoinHostPort(host, port)
		answer, err := c.clean(ctx, address, clean.Topic, clean.Partitions)
		if errors.As(err, new(*Refused)) || ctx.Err() != nil {
			return nil, err
		}
		if err == nil {
			found.take(address, answer, elsewhere)
		}
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

// take notes what a broker was asked for, and which replicas it says are elsewhere, but for those
// that were asked already.
func (c *Cleaning) take(address string, answer report.CleanRequests,
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
			return r.Broker == other.Broker &&
				r.Partition == other.Partition
		}
		if !slices.ContainsFunc(c.Replicas, asked) {
			elsewhere[[2]int32{other.Broker, other.Partition}] = other
		}
	}
}

// hosts are those of brokers that were not asked, each once, sorted.
func hosts(elsewhere map[[2]int32]report.CleanElsewhere) (names []string) {
	for _, other := range elsewhere {
		if other.Host != "" && !slices.Contains(names, other.Host) {
			names = append(names, other.Host)
		}
	}
	slices.Sort(names)
	return names
}

// Fault is why not all is as it was asked for; nil if it is, or may still come to be.
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
			fmt.Errorf("not asked, as the broker cannot be reached from here: %s\n"+
				"give its address with another --address; or, on Kubernetes: kubectl annotate topic NAME heartwood.dev/clean-now=\"$(date)\" --overwrite",
				strings.Join(unreached, ", ")))
	}
	return errors.Join(faults...)
}
