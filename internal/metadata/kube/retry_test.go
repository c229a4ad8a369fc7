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

// testLostAnswer: a change of the ISR is written, and the answer says that the server failed and to
// come back. Tried again by whoever got that answer, it meets its own write as a conflict, and the
// leader would take what is on record for what is not.
func testLostAnswer(w *world) {
	w.topic("orders", 1)
	p := &v1alpha1.Partition{}
	w.get("orders-0", p)
	p.Spec.Replicas = []int32{0, 1}
	if err := w.client.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	var armed atomic.Bool
	losing := rest.CopyConfig(w.config)
	losing.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(request)
			if err != nil || request.Method != http.MethodPut ||
				!strings.Contains(request.URL.Path, "/partitions/") ||
				!armed.CompareAndSwap(true, false) {
				return answer, err
			}
			_ = answer.Body.Close()
			return &http.Response{
				StatusCode: http.StatusServiceUnavailable,
				Header:     http.Header{"Retry-After": {"1"}}, Request: request,
				ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(nil)),
			}, nil
		})
	})
	leader := w.run(0, losing)
	w.run(1, w.config).until("both are up", up(0, 1))
	w.elect("orders-0", 0, 3, 1)
	leader.until("both are up", up(0, 1))
	topic := leader.until("it leads", leads("orders", 0, 3)).Topic("orders").ID
	armed.Store(true)
	err := leader.changeISR(w.t.Context(), metadata.ISRChange{
		Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1}},
	})
	if w.get("orders-0", p); len(p.Status.ISR) != 2 || armed.Load() {
		w.t.Fatalf("the change is not on record: %+v", p.Status.ISR)
	}
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		w.t.Errorf("nobody can know what came of it, and it is told as: %v", err)
	}
}

// testEpochsOutliveALease: somebody deleted the Lease of a broker that is down. Were its next
// incarnation the first again, it could pass for the one that is in sync on record, whatever it has
// lost.
func testEpochsOutliveALease(w *world) {
	w.topic("orders", 1)
	w.lead("orders-0", 0, 3, 7)
	b := w.run(0, w.config)
	b.until("it is up", up(0))
	if epoch := b.self.Load().Epoch; epoch != 8 {
		w.t.Errorf("incarnation %d begins, after 7", epoch)
	}
}

// testANewDiskIsRegisteredAboveTheOld: the image tells a broker what its Lease remembers of the
// disk before, and not what it said itself.
func testANewDiskIsRegisteredAboveTheOld(w *world) {
	const ahead = metadata.ProducerIDsAhead
	for _, life := range []struct {
		directory   string
		says, wants int64
	}{{"a", 5 + ahead, 5 + ahead}, {"b", 1 + ahead, 5 + 2*ahead}} {
		b := w.runAs(metadata.Broker{ID: 0, Endpoints: "kafka://demo-broker-0:9092",
			Directory: life.directory, CleanEpoch: -1, ProducerIDs: life.says}, w.config)
		self, _ := b.until("it is up", up(0)).Broker(0)
		if self.ProducerIDs != life.wants {
			w.t.Errorf("disk %s is registered with %d, want %d", life.directory, self.ProducerIDs,
				life.wants)
		}
		b.stop()
	}
}
