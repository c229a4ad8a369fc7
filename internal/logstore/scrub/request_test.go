package scrub

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestRequestsAreServedByAWalkThatBeginsLater simulates requests for topics and for everything,
// with restarts, and counts the checks of each target since each request. When a request is served,
// every target that existed since the request was checked after it.
func TestRequestsAreServedByAWalkThatBeginsLater(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	topics := []string{"", "a", "b", "without replicas"}
	targets := []Target{dataDirectory, {Topic: "a", Partition: 0, Base: -1},
		{Topic: "a", Partition: 0, Base: 7}, {Topic: "a", Partition: 1, Base: -1},
		{Topic: "b", Partition: 0, Base: -1}, {Topic: "b", Partition: 0, Base: 30}}
	now := time.UnixMilli(1_700_000_000_000).UTC()
	var state State
	type asked struct {
		topic  string
		ticket int64
		since  map[Target]int // number of checks after the request
	}
	var open []asked
	served := map[string]int{}
	check := func(target Target) {
		for _, request := range open {
			request.since[target]++
		}
	}
	for range 20_000 {
		now = now.Add(time.Second)
		if random.IntN(10) == 0 {
			state = restarted(t, state)
		}
		if topic := topics[random.IntN(len(topics))]; random.IntN(12) == 0 {
			var ticket int64
			state, ticket = state.Requested(topic)
			open = append(open, asked{topic, ticket, map[Target]int{}})
		}
		next, after, ok := state.NextRequested(targets, now)
		if state = after; ok {
			check(next)
			state = state.RequestPassed(next)
		} else if next, after, _, ok := state.Next(targets, time.Hour, now); ok {
			check(next)
			state = after.Passed(next, 1)
		} else {
			state = after
		}
		open = slices.DeleteFunc(open, func(request asked) bool {
			index, found := state.request(request.topic)
			if found && state.Requests[index].Served < request.ticket {
				return false
			}
			served[request.topic]++
			for _, target := range targets {
				if (request.topic == "" || target.Topic == request.topic) &&
					request.since[target] == 0 {
					t.Fatalf("request for %q served without a check of %v", request.topic, target)
				}
			}
			return true
		})
	}
	for _, topic := range topics {
		if served[topic] == 0 {
			t.Errorf("no request for %q was served", topic)
		}
	}
}

func TestAnnotationRequestsEachValueOnce(t *testing.T) {
	var state State
	for _, step := range []struct {
		topic, value string
		want         int64
	}{{"", "", 0}, {"", "monday", 1}, {"", "monday", 1}, {"", "", 1}, {"", "monday", 1},
		{"a", "monday", 2}, {"a", "tuesday", 3}} {
		state = restarted(t, state.Annotate(step.topic, step.value))
		if state.Tickets != step.want {
			t.Errorf("%+v: %d requests", step, state.Tickets)
		}
	}
}

func TestRequestChecksBeforeTheNextRound(t *testing.T) {
	f := open(t, vfs.NewMem())
	fill(t, f)
	s, _ := start(t, f, nil)
	awaitRounds(t, s, 1)
	s.Configure(Settings{Interval: time.Hour, BytesRate: 1 << 40})
	await.Until(t, "the end of the round", func() bool { return s.State().Complete })
	began := s.State().Began
	flip(t, f.fs, sealedFile(t, f, ".log"), rand.New(rand.NewPCG(seed.New(t), 0)))
	ticket, err := s.Request(tickets.Topic)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the request is served",
		func() bool { return len(s.State().Requests) > 0 && s.State().Requests[0].Served >= ticket })
	if len(s.State().Damaged) == 0 || !s.State().Began.Equal(began) {
		t.Errorf("state %+v, want damage and no other round than that of %v", s.State(), began)
	}
	if _, err = s.Request(""); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "another round", func() bool { return s.State().CheckedSince.After(began) })
	s.Configure(Settings{})
	if _, err := s.Request(""); !errors.Is(err, ErrOff) {
		t.Errorf("request to a scrub that is off: %v", err)
	}
}
