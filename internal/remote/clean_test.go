package remote

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
)

// fakeBroker is an HTTP server with scripted responses.
type fakeBroker struct {
	mu       sync.Mutex
	posts    []string // URLs of POST requests
	requests report.CleanRequests
	refusal  *report.Failure
	rows     [][]report.Partition // one response for each GET; the last is repeated
}

func (p *fakeBroker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && p.refusal != nil:
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(p.refusal)
	case r.Method == http.MethodPost:
		p.posts = append(p.posts, r.URL.String())
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(p.requests)
	default:
		_ = json.NewEncoder(w).Encode(report.Partitions{Partitions: p.rows[0]})
		if len(p.rows) > 1 {
			p.rows = p.rows[1:]
		}
	}
}

// serve starts a fakeBroker on a loopback address; port 0 picks a free port.
func serve(t *testing.T, p *fakeBroker, address string) string {
	t.Helper()
	return serveHandler(t, p, address)
}

func serveHandler(t *testing.T, handler http.Handler, address string) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("this machine has no second loopback address: %v", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

func request(broker, partition int32, ticket int64) report.CleanRequest {
	return report.CleanRequest{Broker: broker, Partition: partition, Ticket: ticket}
}

// TestRequestIsSentToNamedBrokers checks that the request is also sent to other brokers that a
// response names, at the same port. Brokers that cannot be reached are reported.
func TestRequestIsSentToNamedBrokers(t *testing.T) {
	first := &fakeBroker{requests: report.CleanRequests{
		Requests: []report.CleanRequest{request(0, 1, 5)},
		Elsewhere: []report.CleanElsewhere{
			{Broker: 1, Partition: 0, Host: "127.0.0.2"},
			{Broker: 1, Partition: 2, Host: "127.0.0.2"}, {Broker: 2, Partition: 3},
			{Broker: 4, Partition: 4, Host: "nowhere.invalid"},
		},
	}}
	address := serve(t, first, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address)
	second := &fakeBroker{requests: report.CleanRequests{
		Requests:  []report.CleanRequest{request(1, 2, 7), request(1, 0, 1)},
		Elsewhere: []report.CleanElsewhere{{Broker: 0, Partition: 1, Host: "127.0.0.1"}},
	}}
	serve(t, second, net.JoinHostPort("127.0.0.2", port))
	cleaning, err := (&Client{}).Start(t.Context(),
		Clean{Topic: "a.b", Partitions: []int32{0, 1, 2, 3, 4}, Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range cleaning.Replicas {
		got = append(got, r.name("a.b")+" "+r.State)
	}
	want := []string{
		"a.b-0 on broker 1 asked", "a.b-1 on broker 0 asked", "a.b-2 on broker 1 asked",
		"a.b-3 on broker 2 unreached", "a.b-4 on broker 4 unreached",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	path := "/api/v1/topics/a.b/clean?partition=0&partition=1&partition=2&partition=3&partition=4"
	if len(first.posts) != 1 || first.posts[0] != path {
		t.Errorf("requests %v, want once %s", first.posts, path)
	}
	fault := cleaning.Fault()
	if fault == nil || !strings.Contains(fault.Error(), "a.b-3 on broker 2, a.b-4 on broker 4") ||
		!strings.Contains(fault.Error(), "heartwood.dev/clean-now") {
		t.Errorf("fault: %v", fault)
	}
}

func TestRefusalIsReturned(t *testing.T) {
	p := &fakeBroker{refusal: &report.Failure{Error: "topic is not compacted",
		Reason: "NotCompacted"}}
	_, err := (&Client{}).Start(t.Context(),
		Clean{Topic: "t", Addresses: []string{serve(t, p, "127.0.0.1:0")}})
	if err == nil || err.Error() != "topic is not compacted" {
		t.Errorf("got error %v, want the text of the refusal", err)
	}
}

// TestWaitFollowsEachReplica checks that Wait prints each step of each replica once, until the
// replica is done or has failed.
func TestWaitFollowsEachReplica(t *testing.T) {
	row := func(partition int32, c report.Compaction) report.Partition {
		return report.Partition{Topic: "t", Partition: partition, Compaction: &c}
	}
	pass := report.Pass{Result: "success", Began: 10, Ended: new(12.5), ReclaimedBytes: 3 << 20,
		RemovedRecords: 42, ReadBytes: 1 << 20, SidecarReadBytes: 1 << 20}
	done := report.Compaction{CleanNowAsked: 1, CleanNowServed: 1, LastPass: &pass,
		Reason: "MinLagNotReached"}
	failed := report.Compaction{CleanNowAsked: 1, CleanNowServed: 1,
		LastPass: &report.Pass{Result: "failed", Error: "disk on fire"}}
	running := report.Compaction{CleanNowAsked: 1, Phase: "rewriting", ProgressRatio: 0.47,
		EtaSeconds: new(125.0), RunningPass: &report.Pass{}}
	p := &fakeBroker{
		requests: report.CleanRequests{Requests: []report.CleanRequest{request(0, 0, 1),
			request(0, 1, 1), request(0, 2, 1)}},
		rows: [][]report.Partition{
			{row(0, report.Compaction{CleanNowAsked: 1, Phase: "queued"}), row(1, running),
				row(2, report.Compaction{CleanNowAsked: 1})},
			{row(0, running), row(1, failed), row(2, report.Compaction{})},
			{row(0, done)},
		},
	}
	client := &Client{}
	cleaning, err := client.Start(t.Context(),
		Clean{Topic: "t", Addresses: []string{serve(t, p, "127.0.0.1:0")}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	if err := client.Wait(t.Context(), cleaning,
		func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"t-0 on broker 0: waiting for a worker slot",
		"t-1 on broker 0: rewriting, 40 % done, about 2 min left",
		"t-2 on broker 0: waiting for a worker slot",
		"t-0 on broker 0: rewriting, 40 % done, about 2 min left",
		"t-1 on broker 0: failed: disk on fire",
		"t-2 on broker 0: failed: the broker has restarted and lost the request; send it again",
		"t-0 on broker 0: done in 2.5 s: 3 MiB and 42 records reclaimed; 2 MiB read, 0 B written (records younger than compaction.minLag were kept)",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if fault := cleaning.Fault(); fault == nil ||
		!strings.Contains(fault.Error(), "t-1 on broker 0: disk on fire") {
		t.Errorf("fault: %v", fault)
	}
	if r := cleaning.Replicas[0]; r.State != Done || r.Reason != "MinLagNotReached" ||
		r.Pass.RemovedRecords != 42 {
		t.Errorf("got replica %+v, want it done with 42 removed records and a reason", r)
	}
}

// TestWaitEndsWithItsContext checks that Wait returns when ctx ends, as after Ctrl-C. The cleaning
// continues.
func TestWaitEndsWithItsContext(t *testing.T) {
	p := &fakeBroker{
		requests: report.CleanRequests{Requests: []report.CleanRequest{request(0, 0, 1)}},
		rows: [][]report.Partition{{{Topic: "t",
			Compaction: &report.Compaction{CleanNowAsked: 1}}}},
	}
	client := &Client{}
	cleaning, err := client.Start(t.Context(),
		Clean{Topic: "t", Addresses: []string{serve(t, p, "127.0.0.1:0")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = client.Wait(ctx, cleaning, func(string) { cancel() })
	if err == nil || !strings.Contains(err.Error(), "which continues: context canceled") {
		t.Errorf("got error %v, want one that the cleaning continues", err)
	}
}

// TestUnresponsiveBrokerFails checks that if a broker does not respond, its replicas fail only
// after silenceMax, because the broker may be restarting.
func TestUnresponsiveBrokerFails(t *testing.T) {
	cleaning := &Cleaning{Topic: "t",
		Replicas: []*Replica{{State: Asked, address: "a"}, {State: Asked, address: "b"}}}
	gone := context.DeadlineExceeded
	cleaning.update("a", report.Partitions{}, gone, false,
		func(string) { t.Error("reported a missing response before the timeout") })
	lines := 0
	cleaning.update("a", report.Partitions{}, gone, true, func(string) { lines++ })
	if lines != 1 || cleaning.Replicas[0].State != Failed || cleaning.Replicas[1].State != Asked {
		t.Errorf("%d lines, %+v, %+v", lines, cleaning.Replicas[0], cleaning.Replicas[1])
	}
}
