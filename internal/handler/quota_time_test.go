package handler

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// TestTimeoutIsNoWait checks that the processing time does not end when a handler only sets a
// timeout, but when it waits.
func TestTimeoutIsNoWait(t *testing.T) {
	m := &api.Meter{Context: t.Context(), Begun: time.Now()}
	ctx, cancel := api.WithTimeout(m, time.Hour)
	if m.Processed.Load() != 0 {
		t.Error("the timeout has ended the processing time")
	}
	_ = ctx.Done()
	if m.Processed.Load() == 0 {
		t.Error("a wait has not ended the processing time")
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("the context has not ended")
	}
}

// TestProcessingTimeOfAdminRequestsIsCharged checks that a request that never waits is charged for
// its whole duration.
func TestProcessingTimeOfAdminRequestsIsCharged(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"request_percentage": 1}})
	raw := kmsg.NewPtrCreateTopicsRequest()
	raw.TimeoutMillis = 1000
	for i := range 20_000 { // invalid, so nothing is created
		raw.Topics = append(raw.Topics, kmsg.CreateTopicsRequestTopic{NumPartitions: 1,
			ReplicationFactor: 1, Topic: strings.Repeat("/", 1+i%200)})
	}
	raw.SetVersion(5)
	req := &wire.Request{Key: raw.Key(), Version: 5, Body: raw.AppendTo(nil),
		Session: &wire.Session{Principal: wire.Principal{Type: "User", Name: "alice"}}}
	m := b.quotas.Meter(t.Context(), req)
	_, err := b.handleMetered(m, b.row(req.Key), req)
	must(t, err)
	if m.Processed.Load() != 0 {
		t.Errorf("the processing time has ended after %v", time.Duration(m.Processed.Load()))
	}
}
