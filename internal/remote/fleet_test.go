package remote

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// serveBroker starts an HTTP server that responds with the given placement and rows.
func serveBroker(t *testing.T, placement report.Placement, rows []report.Partition,
	address string) string {
	t.Helper()
	return serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/placement":
			_ = json.NewEncoder(w).Encode(placement)
		case "/api/v1/partitions":
			_ = json.NewEncoder(w).Encode(report.Partitions{Partitions: rows})
		case "/api/v1/volumes":
			respondVolumes(w, placement.Brokers)
		default:
			t.Errorf("request for %s", r.URL)
		}
	}), address)
}

// respondVolumes responds with the volume of the last broker in a placement, if there is one.
func respondVolumes(w http.ResponseWriter, brokers []report.BrokerHost) {
	if len(brokers) == 0 {
		_ = json.NewEncoder(w).Encode(report.Volumes{})
		return
	}
	_ = json.NewEncoder(w).Encode(report.Volumes{Volumes: []report.Volume{
		{Broker: brokers[len(brokers)-1].Broker, Pressure: "Reject"}}})
}

// TestFleetCombinesAllBrokers checks that the answers contain the replicas on all brokers that
// respond, the lag from each leader, and the brokers that do not respond.
func TestFleetCombinesAllBrokers(t *testing.T) {
	all := func(lag0, lag1 *int64) report.Placement {
		return report.Placement{Partitions: []report.PlacedPartition{placed(0, 0, lag0, ""),
			placed(1, 1, lag1, "")}}
	}
	row := func(broker, partition int32) report.Partition {
		return report.Partition{Broker: broker, Topic: "tickets", Partition: partition}
	}
	first := serveBroker(t, all(new(int64(5)), nil), []report.Partition{row(0, 1), row(0, 0)},
		"127.0.0.1:0")
	second := serveBroker(t, all(nil, new(int64(7))), []report.Partition{row(1, 0)}, "127.0.0.1:0")
	var config net.ListenConfig
	closed, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := closed.Addr().String()
	_ = closed.Close()

	got := NewFleet(&Client{}, []string{down, first, second}, false).Ask(t.Context(), nil)
	if got.Asked != 3 || len(got.Unanswered) != 1 || got.Unanswered[0].Address != down {
		t.Errorf("asked %d, unanswered %v; want 3 and %s", got.Asked, got.Unanswered, down)
	}
	if len(got.Volumes) != 0 {
		t.Errorf("no broker has a volume: volumes %+v", got.Volumes)
	}
	var rows [][2]int32
	for _, p := range got.Partitions {
		rows = append(rows, [2]int32{p.Partition, p.Broker})
	}
	if want := [][2]int32{{0, 0}, {0, 1}, {1, 0}}; !slices.Equal(rows, want) {
		t.Errorf("got partitions and brokers %v, want %v", rows, want)
	}
	for i, want := range []int64{5, 7} {
		if lag := got.Placement.Partitions[i].Lag; lag == nil || *lag != want {
			t.Errorf("partition %d: got lag %v, want %d", i, lag, want)
		}
	}
}

// TestFleetDiscoversBrokers checks that requests are also sent to a broker that a response names,
// at the same port.
func TestFleetDiscoversBrokers(t *testing.T) {
	named := report.Placement{Brokers: []report.BrokerHost{{Broker: 0, Host: "127.0.0.1"},
		{Broker: 1, Host: "127.0.0.2"}}}
	first := serveBroker(t, named, nil, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(first)
	serveBroker(t, named, []report.Partition{{Broker: 1, Topic: "tickets"}},
		net.JoinHostPort("127.0.0.2", port))
	for discover, want := range map[bool]int{true: 2, false: 1} {
		got := NewFleet(&Client{}, []string{first}, discover).Ask(t.Context(), nil)
		if len(got.Volumes) != want || got.Volumes[0].Broker != 1 {
			t.Errorf("discover %t: got volumes %+v", discover, got.Volumes)
		}
		if got.Asked != want || len(got.Partitions) != want-1 || len(got.Unanswered) != 0 {
			t.Errorf("discover %t: asked %d, got %d rows, unanswered %v", discover, got.Asked,
				len(got.Partitions), got.Unanswered)
		}
	}
}

// TestFleetKeysSearchesAllLeaders checks that a key's records are collected from all brokers that
// respond. If a leader does not respond, its partition is in Elsewhere.
func TestFleetKeysSearchesAllLeaders(t *testing.T) {
	leader := func(partition, elsewhere int32) string {
		return serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.RequestURI(); got != "/api/v1/topics/a%2Fb/keys?all=true&key=_w&valueBytes=9" {
				t.Errorf("got request %s", got)
			}
			_ = json.NewEncoder(w).Encode(report.Keys{
				Partitions: []report.KeyPartition{{Partition: partition}},
				Elsewhere:  []report.KeyElsewhere{{Partition: elsewhere}, {Partition: 2}}})
		}), "127.0.0.1:0")
	}
	fleet := NewFleet(&Client{}, []string{leader(1, 0), "127.0.0.1:1", leader(0, 1)}, false)
	got, failed, err := fleet.Keys(t.Context(), KeyQuery{Topic: "a/b", Key: []byte{255},
		Partition: -1, All: true, ValueBytes: 9})
	if err != nil || len(failed) != 1 || failed[0].Address != "127.0.0.1:1" {
		t.Errorf("got failures %v, error %v", failed, err)
	}
	if len(got.Partitions) != 2 || got.Partitions[0].Partition != 0 || len(got.Elsewhere) != 1 ||
		got.Elsewhere[0].Partition != 2 {
		t.Errorf("got %+v", got)
	}
	refusing := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(report.Failure{Error: "unknown topic", Reason: "UnknownTopic"})
	}), "127.0.0.1:0")
	_, _, err = NewFleet(&Client{}, []string{refusing}, false).Keys(t.Context(), KeyQuery{})
	var refused *Refused
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("got error %v, want the refusal", err)
	}
}
