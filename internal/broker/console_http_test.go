package broker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/test/kit/await"
)

func get(t *testing.T, handler http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return recorder
}

// fetch sends a GET request, checks the status, and decodes the response.
func fetch[T any](t *testing.T, handler http.Handler, path string, status int) (answer T) {
	t.Helper()
	r := get(t, handler, "GET", path)
	if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || r.Code != status {
		t.Fatalf("%s: got %d %s, want %d", path, r.Code, r.Body, status)
	}
	return answer
}

func handlerOf(brokers ...*Broker) http.Handler {
	all := func() Brokers { return brokers }
	return httpport.New(HTTPOf(prometheus.NewRegistry(), func() error { return nil }, all))
}

// cleanTickets requests passes over both partitions and waits until they have completed.
func (c *cluster) cleanTickets() {
	c.t.Helper()
	answer, err := Brokers{c.Broker}.CleanNow("tickets", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	await.Until(c.t, "the requests to be served", func() bool {
		for i, row := range c.rowsOf() {
			if row.CleanNowServed < answer.Requests[i].Ticket {
				return false
			}
		}
		return true
	})
}

// TestSegmentsAndPassesOverHTTP checks that the sizes of the segments add up to the size of the
// partition, and that the pass that has rewritten the segments is listed, even after a restart of
// the broker.
func TestSegmentsAndPassesOverHTTP(t *testing.T) {
	c := newCluster(t)
	c.start()
	handler := handlerOf(c.Broker)
	c.sync(1, 1, 2, "")
	client := c.client()
	for round := range 5 {
		c.produce(client, fmt.Sprint("round", round), 200)
		c.cleanTickets()
	}
	for _, row := range (Brokers{c.Broker}).Report() {
		if row.Topic != "tickets" {
			continue
		}
		path := fmt.Sprintf("/api/v1/partitions/tickets/%d/segments", row.Partition)
		var all report.Segments
		await.Until(t, "every clean segment to have a usable key sidecar, which counts its records",
			func() bool {
				all = fetch[report.Segments](t, handler, path, http.StatusOK)
				return !slices.ContainsFunc(all.Segments, func(s report.Segment) bool {
					return s.State == report.SegmentClean && s.Records == nil
				})
			})
		var bytes, clean, records int64
		for _, s := range all.Segments {
			bytes += s.Bytes
			if s.State == report.SegmentClean {
				clean += s.Bytes
				records += *s.Records
			}
		}
		if bytes != row.SizeBytes || clean != row.Compaction.CleanBytes {
			t.Errorf("partition %d: got %d bytes, %d clean, want %+v", row.Partition, bytes,
				clean, row)
		}
		if records == 0 || !all.Leader {
			t.Errorf("partition %d: got %d records of %+v", row.Partition, records, all)
		}
		if all.Total != row.Segments || len(all.Segments) != all.Total {
			t.Errorf("partition %d: got %+v, want %d segments", row.Partition, all, row.Segments)
		}
		if all.LogEndOffset != row.LogEndOffset || all.Next != nil {
			t.Errorf("partition %d: got %+v, want end %d", row.Partition, all, row.LogEndOffset)
		}
		first := fetch[report.Segments](t, handler, path+"?limit=1&broker=0", http.StatusOK)
		second := fetch[report.Segments](t, handler,
			fmt.Sprintf("%s?from=%d", path, *first.Next), http.StatusOK)
		if got := slices.Concat(first.Segments, second.Segments); len(got) != all.Total ||
			got[1].Base != *first.Next {
			t.Errorf("in two pages: got %+v", got)
		}
	}
	newest := checkPasses(t, handler)
	client.Close()
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	c.start()
	again := fetch[report.Passes](t, handlerOf(c.Broker),
		fmt.Sprintf("/api/v1/passes?id=%d&steps=true", newest.ID), http.StatusOK)
	if len(again.Passes) != 1 || again.Passes[0].Began != newest.Began ||
		len(again.Passes[0].Steps) != newest.StepCount {
		t.Errorf("after a restart: got %+v, want %+v", again, newest)
	}
}

// checkPasses checks two pages of passes: one with steps, and one with older passes. It returns the
// newest pass.
func checkPasses(t *testing.T, handler http.Handler) report.PartitionPass {
	t.Helper()
	passes := fetch[report.Passes](t, handler, "/api/v1/passes?topic=tickets&steps=true&limit=3",
		http.StatusOK)
	if len(passes.Passes) != 3 || passes.Next == nil {
		t.Fatalf("got %+v, want 3 passes and more", passes)
	}
	newest := passes.Passes[0]
	if newest.Trigger != "requested" || newest.Ended == nil {
		t.Errorf("got %+v, want a requested pass that ended", newest)
	}
	steps := newest.Steps
	if len(steps) != newest.StepCount || steps[len(steps)-1].Kind != report.StepEnd {
		t.Errorf("got steps %+v, want %d", steps, newest.StepCount)
	}
	older := fetch[report.Passes](t, handler,
		fmt.Sprintf("/api/v1/passes?partition=1&before=%d", *passes.Next), http.StatusOK)
	if len(older.Passes) == 0 || slices.ContainsFunc(older.Passes,
		func(p report.PartitionPass) bool {
			return p.ID >= *passes.Next || p.Partition != 1 || p.Steps != nil
		}) {
		t.Errorf("older passes: got %+v", older)
	}
	return newest
}

// TestReportRequestsAreChecked checks the status and the reason in the response to each invalid
// request.
func TestReportRequestsAreChecked(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.sync(1, 1, 2, "")
	handler := handlerOf(c.Broker)
	for path, want := range map[string]string{
		"partitions/tickets/0/segments?limit=501":           "400 BadRequest",
		"partitions/tickets/0/segments?limit=0":             "400 BadRequest",
		"partitions/tickets/0/segments?from=-1":             "400 BadRequest",
		"partitions/tickets/x/segments":                     "400 BadRequest",
		"partitions/tickets/-1/segments":                    "400 BadRequest",
		"partitions/tickets/9/segments":                     "404 UnknownPartition",
		"partitions/nothing/0/segments":                     "404 UnknownTopic",
		"partitions/tickets/0/segments?broker=7":            "421 Misdirected",
		"passes?before=x":                                   "400 BadRequest",
		"passes?steps=yes":                                  "400 BadRequest",
		"passes?steps=true&limit=17":                        "400 BadRequest",
		"topics/tickets/keys":                               "400 BadRequest",
		"topics/tickets/keys?key=%25":                       "400 BadRequest",
		"topics/tickets/keys?key=a2V5&all=1":                "400 BadRequest",
		"topics/tickets/keys?key=a2V5&all=true&partition=1": "400 BadRequest",
		"topics/tickets/keys?key=a2V5&partition=2":          "404 UnknownPartition",
		"topics/nothing/keys?key=a2V5":                      "404 UnknownTopic",
		"topics/nothing/replicas":                           "404 UnknownTopic",
	} {
		r := get(t, handler, "GET", "/api/v1/"+path)
		var failure report.Failure
		if err := json.Unmarshal(r.Body.Bytes(), &failure); err != nil ||
			fmt.Sprint(r.Code, " ", failure.Reason) != want || failure.Error == "" {
			t.Errorf("%s: got %d %s, want %s", path, r.Code, r.Body, want)
		}
	}
	for _, path := range []string{"partitions/tickets/0/segments", "passes",
		"topics/tickets/keys?key=", "topics/tickets/replicas"} {
		if r := get(t, handlerOf(), "GET", "/api/v1/"+path); r.Code !=
			http.StatusServiceUnavailable {
			t.Errorf("%s while the brokers start: got %d %s", path, r.Code, r.Body)
		}
	}
}

// recordsOfKey requests the records of one key.
func recordsOfKey(t *testing.T, handler http.Handler, key, parameters string) report.Keys {
	t.Helper()
	return fetch[report.Keys](t, handler, "/api/v1/topics/tickets/keys?key="+
		base64.RawURLEncoding.EncodeToString([]byte(key))+parameters, http.StatusOK)
}

// TestKeysOverHTTP looks up keys whose partitions the producer has chosen by hash: before and after
// passes, with tombstones, and with a key that does not exist.
func TestKeysOverHTTP(t *testing.T) {
	c := newCluster(t)
	c.start()
	handler := handlerOf(c.Broker)
	c.sync(1, 1, 2, "")
	client := c.client()
	c.produce(client, "old", 100)
	c.produce(client, "new", 100)
	tombstone := &kgo.Record{Key: []byte("key-7")}
	if err := client.ProduceSync(t.Context(), tombstone).FirstErr(); err != nil {
		t.Fatal(err)
	}
	partitions := map[int32]int{}
	check := func(cleaned bool) {
		for i := range 100 {
			key, state, count := fmt.Sprint("key-", i), report.KeyPresent, 2
			if i == 7 {
				state, count = report.KeyDeleted, 3
			}
			found := recordsOfKey(t, handler, key, "")
			if len(found.Partitions) != 1 || found.Elsewhere != nil || string(found.Key) != key {
				t.Fatalf("%s: got %+v", key, found)
			}
			in := found.Partitions[0]
			partitions[in.Partition]++
			if in.State != state || !in.Complete {
				t.Fatalf("%s: got %+v, want all of %s", key, in, state)
			}
			if len(in.Records) == 0 || !cleaned && len(in.Records) != count {
				t.Fatalf("%s: got %+v, want %d records", key, in.Records, count)
			}
			value := string(in.Records[0].Value)
			if i != 7 && value != fmt.Sprint("new-", i) {
				t.Fatalf("%s: got value %q", key, value)
			}
			for n, r := range in.Records[1:] {
				if r.State != report.RecordSuperseded || *r.SupersededBy != in.Records[n].Offset {
					t.Errorf("%s: got %+v after %+v", key, r, in.Records[n])
				}
			}
			if i == 7 && (in.Records[0].WaitsFor == "" || in.Records[0].Value != nil) {
				t.Errorf("%s: got %+v", key, in.Records[0])
			}
		}
	}
	check(false)
	c.cleanTickets()
	check(true)
	if len(partitions) != 2 {
		t.Errorf("the keys are in partitions %v", partitions)
	}
	everywhere := recordsOfKey(t, handler, "key-3", "&all=true&latest=true&valueBytes=2")
	if len(everywhere.Partitions) != 2 {
		t.Fatalf("got %+v", everywhere)
	}
	var states []string
	for _, p := range everywhere.Partitions {
		states = append(states, p.State)
		for _, r := range p.Records {
			if string(r.Value) != "ne" || r.ValueBytes != len("new-3") {
				t.Errorf("got %+v", r)
			}
		}
	}
	slices.Sort(states)
	if !slices.Equal(states, []string{report.KeyAbsent, report.KeyPresent}) {
		t.Errorf("got states %v", states)
	}
	if none := recordsOfKey(t, handler, "nothing", ""); none.Partitions[0].State != report.KeyAbsent {
		t.Errorf("got %+v", none)
	}
}

// TestReplicasOverHTTP checks that the leader reports the lag of each replica, and whether it is in
// sync.
func TestReplicasOverHTTP(t *testing.T) {
	c := newTrio(t)
	c.await("all replicas to be in sync", func() bool {
		all, _ := Brokers(c.brokers[:]).ports().ReplicasOf("rep")
		for _, p := range all.Partitions {
			for _, r := range p.Replicas {
				if !r.InSync || r.Lag == nil || *r.Lag != 0 {
					return false
				}
				if r.Leader != (r.Broker == p.Leader) || r.Joining || r.Leaving {
					return false
				}
				if !p.Reported || p.HighWatermark == nil {
					return false
				}
			}
		}
		return len(all.Partitions) == 2 && len(all.Brokers) == 3
	})
	one := fetch[report.Replicas](t, handlerOf(c.brokers[0]), "/api/v1/topics/rep/replicas",
		http.StatusOK)
	for _, p := range one.Partitions {
		if leads := p.Leader == 0; p.Reported != leads || (p.Replicas[1].Lag != nil) != leads ||
			(p.LogEndOffset != nil) != leads || len(p.Replicas) != 3 {
			t.Errorf("broker 0 reports %+v", p)
		}
	}
	c.stop(2)
	c.await("two replicas to be in sync", func() bool {
		all, _ := Brokers(c.brokers[:2]).ports().ReplicasOf("rep")
		return len(all.Partitions) == 2 && !slices.ContainsFunc(all.Partitions,
			func(p report.ReplicatedPartition) bool {
				return p.Reason != "UnderReplicated" || slices.ContainsFunc(p.Replicas,
					func(r report.PartitionReplica) bool { return r.InSync == (r.Broker == 2) })
			})
	})
}
