package remote

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/report"
)

// placed returns a partition with replicas on brokers 0, 1 and 2.
func placed(partition, leader int32, lag *int64, reason string) report.PlacedPartition {
	return report.PlacedPartition{Topic: "tickets", Partition: partition, Leader: leader,
		LeaderEpoch: 7, Replicas: []int32{0, 1, 2}, InSyncReplicas: []int32{0, 2}, Lag: lag,
		Reason: reason}
}

// servePlacement starts an HTTP server that responds with the given placement.
func servePlacement(t *testing.T, placement report.Placement, address string) string {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/api/v1/placement?topic=tickets" {
			t.Errorf("request for %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(placement)
	})
	return serveHandler(t, handler, address)
}

// TestLagComesFromTheLeaders checks that the lag of a partition is taken from its leader's
// response. Responses of a broker that no longer leads, and leaders that cannot be reached, change
// nothing.
func TestLagComesFromTheLeaders(t *testing.T) {
	first := report.Placement{
		Partitions: []report.PlacedPartition{placed(0, 0, new(int64(0)), ""),
			placed(1, 1, nil, ""), placed(2, 2, nil, ""), placed(3, 1, nil, ""),
			placed(4, -1, nil, "LeaderOffline")},
		Brokers: []report.BrokerHost{{Broker: 0, Host: "127.0.0.1"}, {Broker: 1, Host: "127.0.0.2"},
			{Broker: 2, Host: "nowhere.invalid"}},
	}
	address := servePlacement(t, first, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address)
	servePlacement(t, report.Placement{Partitions: []report.PlacedPartition{
		placed(0, 1, new(int64(99)), ""), // not the leader according to the first response
		placed(1, 1, new(int64(12)), "UnderReplicated"),
		placed(3, 2, nil, ""), // no longer the leader
	}}, net.JoinHostPort("127.0.0.2", port))
	got, err := (&Client{}).Partitions(t.Context(), []string{address}, []string{"tickets"})
	if err != nil {
		t.Fatal(err)
	}
	want := []report.PlacedPartition{first.Partitions[0],
		placed(1, 1, new(int64(12)), "UnderReplicated"), first.Partitions[2], first.Partitions[3],
		first.Partitions[4]}
	if diff := cmp.Diff(want, got.Partitions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintPartitions(t *testing.T) {
	moving := placed(10, 2, nil, "Reassigning")
	moving.Target = []int32{2, 3}
	offline := placed(11, -1, nil, "LeaderOffline")
	offline.InSyncReplicas = nil
	var out strings.Builder
	if err := PrintPartitions(&out, []report.PlacedPartition{placed(0, 0, new(int64(0)), ""), moving,
		offline}); err != nil {
		t.Fatal(err)
	}
	want := `
TOPIC     PARTITION   LEADER   EPOCH   REPLICAS       ISR   LAG   REASON
tickets   0           0        7       0,1,2          0,2   0     -
tickets   10          2        7       0,1,2 -> 2,3   0,2   -     Reassigning
tickets   11          -        7       0,1,2          -     -     LeaderOffline
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := PrintRetained(&out, []report.RetainedPartition{
		{Topic: "old", Partition: 1, Replicas: []int32{2, 0}, LeaderEpoch: 5, Tag: "k3f9x2ab"},
		{Topic: "old", Partition: 2, Replicas: []int32{2}, Tag: "k3f9x2ab", Removing: true}}); err != nil {
		t.Fatal(err)
	}
	want = `
TOPIC   PARTITION   EPOCH   REPLICAS   ID         STATE
old     1           5       2,0        k3f9x2ab   Retained
old     2           0       2          k3f9x2ab   Removing
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
