package remote

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestLatestValueNeedsAllPartitions checks that a value in one partition does not count as the
// latest if another partition, which can contain a newer record, was not searched to the end.
func TestLatestValueNeedsAllPartitions(t *testing.T) {
	present := report.KeyPartition{State: report.KeyPresent, Complete: true,
		Records: []report.KeyRecord{{State: report.RecordLive, Value: []byte("v")}}}
	deleted := report.KeyPartition{State: report.KeyDeleted, Complete: true,
		Records: []report.KeyRecord{{State: report.RecordTombstone}}}
	absent := report.KeyPartition{Partition: 1, State: report.KeyAbsent, Complete: true}
	unknown := report.KeyPartition{Partition: 1, State: report.KeyUnknown}
	for _, test := range []struct {
		partitions []report.KeyPartition
		err        string // empty: the value is found
	}{
		{[]report.KeyPartition{present, absent}, ""},
		{[]report.KeyPartition{present, unknown}, "newest part of partition 1"},
		{[]report.KeyPartition{deleted, unknown}, "newest part of partition 1"},
		{[]report.KeyPartition{deleted, absent}, "was deleted"},
		{[]report.KeyPartition{absent}, "no record"},
	} {
		got, err := LatestValue(&report.Keys{Topic: "t", Partitions: test.partitions})
		switch {
		case test.err == "" && (err != nil || string(got.Value) != "v"):
			t.Errorf("got %+v, error %v", got, err)
		case test.err != "" && (err == nil || got != nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("got %+v, error %v; want an error with %q", got, err, test.err)
		}
	}
}

// TestKeysSkipsAnAddressThatDoesNotRespond: one of several brokers has stopped. The others lead its
// partitions and respond for them.
func TestKeysSkipsAnAddressThatDoesNotRespond(t *testing.T) {
	stopped := httptest.NewServer(http.NotFoundHandler())
	stopped.Close()
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(report.Keys{Partitions: []report.KeyPartition{{Partition: 2}}})
	}))
	defer leader.Close()
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	query := KeyQuery{Topic: "t", Key: []byte("k"), Partition: 2}
	got, err := (&Client{}).Keys(t.Context(), []string{address(stopped), address(leader)}, query)
	if err != nil || len(got.Partitions) != 1 || got.Partitions[0].Partition != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = (&Client{}).Keys(t.Context(), []string{address(stopped)}, query)
	if err == nil || !strings.Contains(err.Error(), "connect to broker at "+address(stopped)) {
		t.Errorf("no broker responds: got error %v", err)
	}
}
