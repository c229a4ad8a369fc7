package kube

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// testLostResponse: an ISR change is written, and its response is a server error with Retry-After.
// A client that repeated the request would get a conflict with its own write, and the leader would
// assume that the recorded change was not made.
func testLostResponse(f *fixture) {
	f.topic("orders", 1)
	p := &v1alpha1.Partition{}
	f.get("orders-0", p)
	p.Spec.Replicas = []int32{0, 1}
	if err := f.client.Update(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	var armed atomic.Bool
	losing := rest.CopyConfig(f.config)
	losing.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil || request.Method != http.MethodPut ||
				!strings.Contains(request.URL.Path, "/partitions/") ||
				!armed.CompareAndSwap(true, false) {
				return response, err
			}
			_ = response.Body.Close()
			return &http.Response{
				StatusCode: http.StatusServiceUnavailable,
				Header:     http.Header{"Retry-After": {"1"}}, Request: request,
				ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(nil)),
			}, nil
		})
	})
	leader := f.run(0, losing)
	f.run(1, f.config).until("both up", up(0, 1))
	f.elect("orders-0", 0, 3, 1)
	leader.until("both up", up(0, 1))
	topic := leader.until("leads", leads("orders", 0, 3)).Topic("orders").ID
	armed.Store(true)
	err := leader.changeISR(f.t.Context(), metadata.ISRChange{
		Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1}},
	})
	if f.get("orders-0", p); len(p.Status.ISR) != 2 || armed.Load() {
		f.t.Fatalf("the change was not written: %+v", p.Status.ISR)
	}
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf("the outcome is unknown, and the error is: %v", err)
	}
}

// testEpochsOutliveTheLease: the Lease of a broker that is down was deleted. If the broker started
// with epoch 1 again, it could later be taken for the incarnation in the recorded ISR, whichever
// records it has lost.
func testEpochsOutliveTheLease(f *fixture) {
	f.topic("orders", 1)
	f.lead("orders-0", 0, 3, 7)
	b := f.run(0, f.config)
	b.until("up", up(0))
	if epoch := b.self.Load().Epoch; epoch != 8 {
		f.t.Errorf("broker epoch %d after 7, want 8", epoch)
	}
}

// testProducerIDsAfterADiskReplacement: a broker with a new disk gets a bound of producer ids above
// the one in its Lease, which the previous disk has used.
func testProducerIDsAfterADiskReplacement(f *fixture) {
	const ahead = metadata.ProducerIDsAhead
	for _, start := range []struct {
		directory      string
		requests, want int64
	}{{"a", 5 + ahead, 5 + ahead}, {"b", 1 + ahead, 5 + 2*ahead}} {
		b := f.runAs(metadata.Broker{ID: 0, Endpoints: "kafka://demo-broker-0:9092",
			Directory: start.directory, CleanEpoch: -1, ProducerIDs: start.requests}, f.config)
		self, _ := b.until("up", up(0)).Broker(0)
		if self.ProducerIDs != start.want {
			f.t.Errorf("disk %s: bound %d, want %d", start.directory, self.ProducerIDs,
				start.want)
		}
		b.stop()
	}
}
