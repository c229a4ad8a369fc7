package scrub

import (
	"slices"
	"strings"
	"time"
)

// Request is the state of the requests for an immediate check of a topic, or of everything. The
// tickets of requests ascend. One walk over the files serves all requests that were made before the
// walk began.
type Request struct {
	// Topic is empty for everything that the broker keeps at rest.
	Topic string `json:"topic,omitempty"`
	// Asked is the ticket of the last request.
	Asked int64 `json:"asked"`
	// Running is the last ticket that the running walk serves; 0 if no walk runs.
	Running int64 `json:"running,omitempty"`
	// Served is the last ticket that a walk has served.
	Served int64 `json:"served,omitempty"`
	// Last is the last target that the walk over a topic has checked. It is not used for a walk
	// over everything, which is a round.
	Last *Target `json:"last,omitempty"`
	// Finished is the time at which the last walk ended.
	Finished time.Time `json:"finished,omitzero"`
}

// Annotated is the broker's last request that was made by the annotation heartwood.dev/scrub-now.
type Annotated struct {
	Topic  string `json:"topic,omitempty"`
	Value  string `json:"value"`
	Ticket int64  `json:"ticket"`
}

// pending reports whether a request is not served yet.
func (r *Request) pending() bool { return r.Served < r.Asked }

// serve ends the running walk.
func (r *Request) serve(now time.Time) {
	r.Served, r.Running, r.Last, r.Finished = r.Running, 0, nil, now
}

// Requested returns the state after a request for an immediate check of a topic, or of everything
// if topic is empty. It also returns the ticket of the request.
func (s State) Requested(topic string) (State, int64) {
	s.Tickets++
	index, found := s.request(topic)
	s.Requests = slices.Clone(s.Requests)
	if !found {
		s.Requests = slices.Insert(s.Requests, index, Request{Topic: topic})
	}
	s.Requests[index].Asked = s.Tickets
	return s, s.Tickets
}

// Annotate returns the state after a request by annotation. Each value of the annotation causes one
// request; an empty value causes none.
func (s State) Annotate(topic, value string) State {
	known := s.Annotated
	if value == "" || known != nil && known.Topic == topic && known.Value == value {
		return s
	}
	s, ticket := s.Requested(topic)
	s.Annotated = &Annotated{topic, value, ticket}
	return s
}

// request returns the index of a topic's requests, or the index at which they would have to be
// inserted.
func (s State) request(topic string) (index int, found bool) {
	return slices.BinarySearchFunc(s.Requests, topic,
		func(r Request, topic string) int { return strings.Compare(r.Topic, topic) })
}

// NextRequested returns the next target of the requests for topics. targets lists all existing
// targets in order. If everything was requested, it begins a round. If no requested topic has an
// unchecked target, ok is false.
func (s State) NextRequested(targets []Target, now time.Time) (next Target, state State, ok bool) {
	s.Requests = slices.Clone(s.Requests)
	for i := range s.Requests {
		r := &s.Requests[i]
		begins := r.pending() && r.Running == 0
		if begins {
			r.Running = r.Asked
		}
		switch {
		case r.Topic == "" && begins:
			s = s.Anew()
		case r.Topic != "" && r.Running > 0:
			scope := ofTopic(targets, r.Topic)
			if passed := passed(scope, r.Last); passed < len(scope) {
				return scope[passed], s, true
			}
			r.serve(now)
		}
	}
	return Target{}, s, false
}

// RequestPassed returns the state after the check of a target that NextRequested has returned.
func (s State) RequestPassed(t Target) State {
	if index, found := s.request(t.Topic); found && s.Requests[index].Running > 0 {
		s.Requests = slices.Clone(s.Requests)
		s.Requests[index].Last = &t
	}
	return s
}

// served returns the state after the end of a round, which serves the requests for everything. It
// removes served requests for topics of which the broker no longer has a replica.
func (s State) served(targets []Target, now time.Time) State {
	s.Requests = slices.DeleteFunc(slices.Clone(s.Requests), func(r Request) bool {
		return r.Topic != "" && !r.pending() && len(ofTopic(targets, r.Topic)) == 0
	})
	if index, found := s.request(""); found && s.Requests[index].Running > 0 {
		s.Requests[index].serve(now)
	}
	return s
}

// begins reports whether a walk may begin. If so, the caller must list all existing targets.
func (s State) begins() bool {
	running := false
	for i := range s.Requests {
		if s.Requests[i].pending() && s.Requests[i].Running == 0 {
			return true
		}
		running = running || s.Requests[i].Running > 0
	}
	return s.Complete && !running
}

// Progress returns the number of targets that the running walk over a topic has checked, and their
// total number. If topic is empty, it returns the numbers of the round.
func (s State) Progress(targets []Target, topic string) (checked, total int) {
	if topic != "" {
		scope := ofTopic(targets, topic)
		if index, found := s.request(topic); found && s.Requests[index].Running > 0 {
			return passed(scope, s.Requests[index].Last), len(scope)
		}
		return 0, len(scope)
	}
	if s.Complete {
		return len(targets), len(targets)
	}
	return passed(targets, s.Last), len(targets)
}

// ofTopic returns the targets of a topic.
func ofTopic(targets []Target, topic string) []Target {
	from, _ := slices.BinarySearchFunc(targets, topic,
		func(t Target, topic string) int { return strings.Compare(t.Topic, topic) })
	to := from
	for to < len(targets) && targets[to].Topic == topic {
		to++
	}
	return targets[from:to]
}

// passed returns the number of targets up to and including last. last is nil before the first
// target.
func passed(targets []Target, last *Target) int {
	if last == nil {
		return 0
	}
	index, exists := slices.BinarySearchFunc(targets, *last, Target.compare)
	if exists {
		index++
	}
	return index
}
