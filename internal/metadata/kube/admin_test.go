package kube

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/internal/metadata"
)

// testRefusals: what forbids a change is a policy, whosever it is, and what only fails may be tried
// again. Neither is the broker's fault.
func testRefusals(w *world) {
	w.topic("orders", 1)
	var status atomic.Int32
	refusing := rest.CopyConfig(w.config)
	refusing.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			code := int(status.Load())
			if code == 0 || request.Method == http.MethodGet ||
				!strings.Contains(request.URL.Path, "/topics") {
				return next.RoundTrip(request)
			}
			return &http.Response{
				StatusCode: code, Header: http.Header{}, Request: request, ProtoMajor: 1,
				ProtoMinor: 1,
				Body:       io.NopCloser(strings.NewReader("exceeded quota")),
			}, nil
		})
	})
	b := w.run(0, refusing)
	b.until("the topic is seen", func(i *metadata.Image) bool { return i.Topic("orders") != nil })
	ctx := w.t.Context()
	for code, want := range map[int32]error{
		http.StatusForbidden:          metadata.ErrPolicy,
		http.StatusServiceUnavailable: metadata.ErrUnavailable,
		http.StatusConflict:           metadata.ErrUnavailable,
	} {
		status.Store(code)
		faults := map[string]error{
			"alter": b.AlterTopic(ctx,
				metadata.TopicChange{Name: "orders",
					Properties: []metadata.PropertyChange{{Name: "retention.ms", Value: "1000"}}}),
		}
		// it means to the others that a topic is there, or another one
		if code != http.StatusConflict {
			_, faults["create"] = b.CreateTopic(ctx,
				metadata.NewTopic{Name: "payments", Partitions: 1, Replicas: 1})
			faults["delete"] = b.DeleteTopic(ctx, "orders")
		}
		for what, err := range faults {
			if !errors.Is(err, want) {
				w.t.Errorf("%s, answered %d: %v, want %v", what, code, err, want)
			}
		}
	}
}
