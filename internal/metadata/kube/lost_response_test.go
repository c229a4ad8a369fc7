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

// testLostResponse checks that an ISR change has an unknown outcome if the API server executes it
// but responds with a server error and Retry-After. If the client retried the request, it would get
// a conflict with its own write, and the leader would assume that the change was not made.
func testLostResponse(f *fixture) {
	f.topic("orders", 1)
	f.assign(orders(0), 0, 1)
	var armed atomic.Bool
	losing := rest.CopyConfig(f.config)
	losing.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil || request.Method != http.MethodPut ||
				!strings.Contains(request.URL.Path, "/partitionsets/") ||
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
	f.elect(orders(0), 0, 3, 1)
	leader.until("both up", up(0, 1))
	topic := leader.until("leads", leads("orders", 0, 3)).Topic("orders").ID
	armed.Store(true)
	err := leader.changeOne(metadata.ISRChange{
		Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{{Broker: 0, Epoch: 1, ReplicaIncarnation: "i"},
			{Broker: 1, Epoch: 1, ReplicaIncarnation: "i"}},
	})
	if isr := f.state(orders(0)).ISR; len(isr) != 2 || armed.Load() {
		f.t.Fatalf("the ISR is %+v, want the change written", isr)
	}
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf(
			"got error %v, want one other than ErrISRConflict, because the outcome is unknown",
			err,
		)
	}
}

// testEpochsOutliveTheLease checks that a broker that was in an ISR with broker epoch 7, and whose
// Lease was deleted, starts with epoch 8. If it used an epoch again, it could be mistaken for the
// incarnation in the recorded ISR, although it may have lost records.
func testEpochsOutliveTheLease(f *fixture) {
	f.topic("orders", 1)
	f.lead(orders(0), 0, 3, 7)
	b := f.run(0, f.config)
	b.until("up", up(0))
	if epoch := b.self.Load().Epoch; epoch != 8 {
		f.t.Errorf("got broker epoch %d, want 8", epoch)
	}
}

// testProducerIDsAfterADiskReplacement checks that a broker with a new disk gets a bound for
// producer ids above the bound in its Lease, because the ids below it were used with the previous
// disk.
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
			f.t.Errorf("disk %s: got bound %d, want %d", start.directory, self.ProducerIDs,
				start.want)
		}
		b.stop()
		f.permit(v1alpha1.VolumeConsent{Claim: "claim", Directory: "b"})
	}
}
