package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/report"
)

// ScrubBroker is the state of a scrub request on one broker.
type ScrubBroker struct {
	Broker int32 `json:"broker"`
	// State is first asked, and later done or failed. If the broker could not be reached, it is
	// unreached.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// Damage contains the known damage on the broker: of the topic, or all damage if no topic was
	// requested.
	Damage []report.ScrubDamage `json:"damage"`
	// Repaired contains the places that were repaired since the request: of the topic, or all places
	// if no topic was requested.
	Repaired []report.ScrubDamage `json:"repaired"`

	address  string
	ticket   int64
	accepted float64 // seconds since 1970, by the broker's clock
	printed  string  // last step that WaitScrub has printed
}

// Scrubbing is the state of a request to check a topic, or all files if Topic is empty. The brokers
// are sorted by id.
type Scrubbing struct {
	Topic   string         `json:"topic,omitempty"`
	Brokers []*ScrubBroker `json:"brokers"`
}

// Scrubs requests GET /api/v1/scrub.
func (c *Client) Scrubs(ctx context.Context, address string) (response report.Scrubs, err error) {
	err = c.do(ctx, http.MethodGet, address, "/api/v1/scrub", &response)
	return response, err
}

// StartScrub requests a check of a topic, or of all files if topic is empty. It sends the request
// to the brokers at addresses and to the brokers that their responses name. It fails under the same
// conditions as Start.
func (c *Client) StartScrub(ctx context.Context, addresses []string,
	topic string) (*Scrubbing, error) {
	found := &Scrubbing{Topic: topic, Brokers: []*ScrubBroker{}}
	elsewhere := map[int32]string{}
	path := "/api/v1/scrub"
	if topic != "" {
		path += "?" + url.Values{"topic": {topic}}.Encode()
	}
	err := spread(ctx, addresses, func(address string) error {
		var answer report.ScrubRequests
		err := c.do(ctx, http.MethodPost, address, path, &answer)
		if err == nil {
			found.add(address, answer, elsewhere)
		}
		return err
	}, func() (names []string) {
		for _, host := range elsewhere {
			if host != "" && !slices.Contains(names, host) {
				names = append(names, host)
			}
		}
		slices.Sort(names)
		return names
	})
	if err != nil {
		return nil, err
	}
	for id := range elsewhere {
		found.Brokers = append(found.Brokers, &ScrubBroker{Broker: id, State: Unreached,
			Damage: []report.ScrubDamage{}, Repaired: []report.ScrubDamage{}})
	}
	slices.SortFunc(found.Brokers,
		func(a, b *ScrubBroker) int { return cmp.Compare(a.Broker, b.Broker) })
	return found, nil
}

// add adds the brokers that have accepted the request, and adds the hosts of the other brokers to
// elsewhere.
func (s *Scrubbing) add(address string, answer report.ScrubRequests, elsewhere map[int32]string) {
	for _, request := range answer.Requests {
		delete(elsewhere, request.Broker)
		if s.find(request.Broker) == nil {
			s.Brokers = append(s.Brokers, &ScrubBroker{Broker: request.Broker, State: Asked,
				Damage: []report.ScrubDamage{}, Repaired: []report.ScrubDamage{}, address: address,
				ticket: request.Ticket, accepted: request.Accepted})
		}
	}
	for _, other := range answer.Elsewhere {
		if s.find(other.Broker) == nil {
			elsewhere[other.Broker] = other.Host
		}
	}
}

func (s *Scrubbing) find(id int32) *ScrubBroker {
	for _, b := range s.Brokers {
		if b.Broker == id {
			return b
		}
	}
	return nil
}

// subject returns a text for what is checked.
func (s *Scrubbing) subject() string { return cmp.Or(s.Topic, "everything") }

// WaitScrub waits until every broker has completed the request or has failed, and returns nil. It
// returns an error if ctx ends first. It calls printLine with one line for each step of each
// broker.
func (c *Client) WaitScrub(ctx context.Context, scrubbing *Scrubbing,
	printLine func(line string)) error {
	return poll(ctx, "the scrub of "+scrubbing.subject(), scrubbing.open,
		func(address string, timedOut bool) error {
			rows, err := c.Scrubs(ctx, address)
			if ctx.Err() == nil {
				scrubbing.update(address, rows, err, timedOut, printLine)
			}
			return err
		})
}

// open returns the addresses of the brokers that have not completed the request.
func (s *Scrubbing) open() map[string]bool {
	open := map[string]bool{}
	for _, b := range s.Brokers {
		if b.State == Asked {
			open[b.address] = true
		}
	}
	return open
}

// update applies a response to the brokers at its address. If err is set, there was no response,
// and the brokers fail only if timedOut is set.
func (s *Scrubbing) update(address string, rows report.Scrubs, err error, timedOut bool,
	printLine func(string)) {
	for _, b := range s.Brokers {
		if b.State != Asked || b.address != address || err != nil && !timedOut {
			continue
		}
		var step string
		if err != nil {
			b.State, b.Error = Failed, err.Error()
			step = "failed: " + b.Error
		} else {
			step = b.update(s.Topic, rows)
		}
		if step != b.printed {
			b.printed = step
			printLine(fmt.Sprintf("%s on broker %d: %s", s.subject(), b.Broker, step))
		}
	}
}

// errScrubOff is the error for a broker whose scrub was turned off after the request.
var errScrubOff = errors.New("the scrub was turned off (spec.scrub.interval of the LogCluster); " +
	"the request remains")

// update sets the state from the broker's report, and returns a text for the current step.
func (b *ScrubBroker) update(topic string, rows report.Scrubs) string {
	row := report.Scrub{}
	for i := range rows.Scrubs {
		if rows.Scrubs[i].Broker == b.Broker {
			row = rows.Scrubs[i]
		}
	}
	request := report.ScrubRequest{}
	for _, r := range row.Requests {
		if r.Topic == topic {
			request = r
		}
	}
	switch {
	case request.Asked < b.ticket:
		b.State, b.Error = Failed, errRequestLost.Error()
		return "failed: " + b.Error
	case request.Served >= b.ticket:
		b.State = Done
		b.collect(topic, row)
		step := "checked, " + DescribeDamage(len(b.Damage))
		if len(b.Repaired) > 0 {
			step += fmt.Sprintf(", %d repaired", len(b.Repaired))
		}
		return step
	case row.State == report.ScrubOff:
		b.State, b.Error = Failed, errScrubOff.Error()
		return "failed: " + b.Error
	case !request.Running:
		return "waiting"
	}
	percent := 100
	if request.Segments > 0 {
		percent = 100 * request.CheckedSegments / request.Segments
	}
	return fmt.Sprintf("%d %% checked", percent/10*10)
}

// collect sets the damage of the topic, and the places repaired since the request.
func (b *ScrubBroker) collect(topic string, row report.Scrub) {
	for _, d := range row.Damage {
		if topic == "" || d.Topic == topic {
			b.Damage = append(b.Damage, d)
		}
	}
	for _, d := range row.Repaired {
		if (topic == "" || d.Topic == topic) && d.Repaired != nil && *d.Repaired >= b.accepted {
			b.Repaired = append(b.Repaired, d)
		}
	}
}

// DescribeDamage returns a text for a number of damaged places.
func DescribeDamage(places int) string {
	switch places {
	case 0:
		return "no damage"
	case 1:
		return "1 damaged place"
	}
	return fmt.Sprintf("%d damaged places", places)
}

// Fault returns an error that names the brokers that failed, could not be reached, or have found
// damage. It returns nil if there are none.
func (s *Scrubbing) Fault() error {
	var unreached, failed []string
	places := 0
	for _, b := range s.Brokers {
		places += len(b.Damage)
		switch b.State {
		case Unreached:
			unreached = append(unreached, fmt.Sprintf("broker %d", b.Broker))
		case Failed:
			failed = append(failed, fmt.Sprintf("broker %d: %s", b.Broker, b.Error))
		}
	}
	var faults []error
	if places > 0 {
		faults = append(faults, fmt.Errorf("%s found at rest", DescribeDamage(places)))
	}
	if len(failed) > 0 {
		faults = append(faults, fmt.Errorf("not checked: %s", strings.Join(failed, "; ")))
	}
	if len(unreached) > 0 {
		faults = append(faults, fmt.Errorf("failed to reach %s\n"+
			"Pass their addresses with further --address flags; or, on Kubernetes, run\n"+
			"kubectl heartwood scrub --now", strings.Join(unreached, ", ")))
	}
	return errors.Join(faults...)
}

// Scrubs requests GET /api/v1/scrub from all brokers. It omits brokers that do not respond.
func (f *Fleet) Scrubs(ctx context.Context) (all []report.Scrub) {
	for _, scrubs := range each(ctx, f, f.client.Scrubs) {
		all = append(all, scrubs.Scrubs...)
	}
	return all
}
